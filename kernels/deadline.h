// A moment until which a call may wait, on the steady clock: whoever sets the system's time makes
// no call fail early or hang longer. An immutable value.
#pragma once

#include <algorithm>
#include <chrono>

#include "absl/time/time.h"

namespace sluice {

class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  static Deadline Never() { return Deadline(Clock::time_point::max()); }
  // `duration` from now; an infinite one means never, one below zero means at once.
  static Deadline After(absl::Duration duration) {
    const Clock::time_point now = Clock::now();
    const auto most = absl::FromChrono(Clock::time_point::max() - now);
    if (duration >= most) return Never();
    return Deadline(now + absl::ToChronoNanoseconds(std::max(duration, absl::ZeroDuration())));
  }

  // Zero once it has passed, infinite where it never does.
  absl::Duration Left() const {
    if (time_ == Clock::time_point::max()) return absl::InfiniteDuration();
    return std::max(absl::FromChrono(time_ - Clock::now()), absl::ZeroDuration());
  }
  bool HasPassed() const { return Clock::now() >= time_; }
  Clock::time_point time() const { return time_; }

 private:
  explicit Deadline(Clock::time_point time) : time_(time) {}

  Clock::time_point time_;
};

}  // namespace sluice
