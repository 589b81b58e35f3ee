// How a rank of a ShmCommunicator waits: spins for a moment, then sleeps until a peer rings,
// looking after its peers from time to time. Belongs to the rank's thread.
#pragma once

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "kernels/communicator/adaptive_spin.h"
#include "kernels/communicator/shm_segment.h"
#include "kernels/deadline.h"

namespace sluice {

class ShmWaiter {
 public:
  ShmWaiter(const ShmSegment& segment, int rank);

  struct Wait {
    // Does what can be done now; true where that was anything.
    absl::FunctionRef<bool()> advance;
    // Whether the wait can't end well once that peer is gone.
    absl::FunctionRef<bool(int peer)> needs;
    // Whether that peer is one to name when the deadline passes.
    absl::FunctionRef<bool(int peer)> awaits;
    // ShmRank::parked while asleep: which news end the sleep.
    std::uint32_t parked = kAwaitsAny;
    Deadline deadline;
  };

  // Returns after advance() has returned true.
  //   UNAVAILABLE        a rank gave the group up, or a needed one left or died
  //   DEADLINE_EXCEEDED  naming the awaited ranks
  absl::Status Await(const Wait& wait);

  // Looks at all peers at once: OK, or UNAVAILABLE as Await().
  absl::Status CheckAll() const;

  // The reason for which the group was given up; OK where it was not. What a peer wrote into the
  // segment is not trusted: INTERNAL where it makes no sense.
  absl::Status GroupFailure() const;

 private:
  absl::Status Sleep(const Wait& wait);
  absl::Status CheckPeers(const Wait& wait, bool look_at_processes) const;

  const ShmSegment& segment_;
  const int rank_;
  AdaptiveSpin spin_;
};

}  // namespace sluice
