// At which rate waiting sequences have their turn, as seen of late: what estimates of waiting time
// are made of. Counts only while somebody waits, since an idle server's rate says nothing.
//
// A pure state machine.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/time/time.h"
#include "services/common/steady_time.h"

namespace sluice {

class ServiceRate {
 public:
  // So many sequences have been started ever, so many wait. Called whenever either may have changed.
  void Observe(SteadyTime now, uint64_t num_started, int32_t num_waiting);

  // How long it takes until `num_starts` more have had their turn. Nothing while too few were seen.
  std::optional<absl::Duration> TimeFor(double num_starts) const;

 private:
  SteadyTime last_;
  uint64_t last_started_ = 0;
  bool waited_ = false;  // somebody did when last observed
  // Both fade, so that the quotient is that of the last seconds in which anybody waited.
  double starts_ = 0;
  double seconds_ = 0;
};

}  // namespace sluice
