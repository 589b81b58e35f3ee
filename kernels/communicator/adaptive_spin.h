// How long a rank looks for news before it sleeps in the kernel: longer where that has paid lately.
// Belongs to the rank's thread.
#pragma once

#include "absl/functional/function_ref.h"
#include "kernels/deadline.h"

namespace sluice {

class AdaptiveSpin {
 public:
  struct Options {
    // Ranks of the group on this host. Where they outnumber the CPUs, a spin holds up the very rank
    // that is waited for, and stays very short.
    int ranks_on_host = 1;
    // One for looks that enter the kernel, more for those that only read memory.
    int looks_per_clock_reading = 1;
  };

  explicit AdaptiveSpin(const Options& options);

  // Calls `look` until it returns true, or for too long; whether it did.
  bool Find(absl::FunctionRef<bool()> look);

 private:
  using Duration = Deadline::Clock::duration;

  bool Spin(absl::FunctionRef<bool()> look) const;

  const int looks_per_clock_reading_;
  const Duration longest_;
  Duration length_;
};

}  // namespace sluice
