// A point in time that no change of the wall clock moves: what timeouts and deadlines are held
// against. Code that decides takes it as an argument; only loops and edges ask for Now().
#pragma once

#include <chrono>
#include <compare>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace sluice {

class SteadyTime {
 public:
  // Before every other.
  SteadyTime() : since_start_(-absl::InfiniteDuration()) {}

  static SteadyTime Now() {
    return FromStart(absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch()));
  }
  // `since_start` of the steady clock, or of a virtual one.
  static SteadyTime FromStart(absl::Duration since_start) { return SteadyTime(since_start); }
  static SteadyTime InfiniteFuture() { return SteadyTime(absl::InfiniteDuration()); }
  // When the wall clock will show `time` if nobody changes it.
  static SteadyTime FromWall(absl::Time time) {
    if (time == absl::InfiniteFuture()) return InfiniteFuture();
    return Now() + (time - absl::Now());
  }

  absl::Duration since_start() const { return since_start_; }
  // For waits of the standard library. REQUIRES: it is of the steady clock, and finite.
  std::chrono::steady_clock::time_point ToChrono() const {
    return std::chrono::steady_clock::time_point(absl::ToChronoNanoseconds(since_start_));
  }

  friend SteadyTime operator+(SteadyTime time, absl::Duration duration) {
    return SteadyTime(time.since_start_ + duration);
  }
  friend absl::Duration operator-(SteadyTime later, SteadyTime earlier) {
    return later.since_start_ - earlier.since_start_;
  }
  friend bool operator==(SteadyTime a, SteadyTime b) { return a.since_start_ == b.since_start_; }
  friend std::strong_ordering operator<=>(SteadyTime a, SteadyTime b) {
    if (a.since_start_ == b.since_start_) return std::strong_ordering::equal;
    return a.since_start_ < b.since_start_ ? std::strong_ordering::less
                                           : std::strong_ordering::greater;
  }

 private:
  explicit SteadyTime(absl::Duration since_start) : since_start_(since_start) {}

  absl::Duration since_start_;
};

}  // namespace sluice
