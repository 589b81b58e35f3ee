#include "services/watch/step_times.h"

#include <algorithm>
#include <cmath>

namespace sluice {
namespace {

// A step hangs that takes so many times longer than it should.
constexpr double kMargin = 10;
// While no step was ever seen: weights may come from a disk, and a long prompt takes a large
// model's CPUs minutes.
constexpr double kMarginAtFirst = 15;
constexpr double kLargeAtFirst = 64;  // from so many positions on in proportion
constexpr double kMostAtFirst = 8;
// What one slow step leaves behind fades.
constexpr double kFading = 0.99;

}  // namespace

int StepTimes::SizeOf(int num_positions) {
  int size = 0;
  while (size + 1 < kNumSizes && (num_positions >> (size + 1)) > 0) ++size;
  return size;
}

void StepTimes::Completed(int num_positions, absl::Duration time) {
  absl::Duration& slowest = slowest_[SizeOf(num_positions)];
  slowest = std::max(time, slowest * kFading);
  patience_ = 1;
}

// A smaller step takes at most as long as a larger one, and a larger one takes longer at most in
// proportion, but for what attention adds: the margin has room for it.
absl::Duration StepTimes::Bound(int num_positions) const {
  const int size = SizeOf(num_positions);
  absl::Duration expected = absl::InfiniteDuration();
  for (int seen = 0; seen < kNumSizes; ++seen) {
    if (slowest_[seen] == absl::ZeroDuration()) continue;
    const int larger = std::max(0, size + 1 - seen);
    expected = std::min(expected, slowest_[seen] * std::ldexp(1.0, larger));
  }
  const bool at_first = expected == absl::InfiniteDuration();
  const double large = std::clamp(num_positions / kLargeAtFirst, 1.0, kMostAtFirst);
  const absl::Duration bound =
      at_first ? least_ * (kMarginAtFirst * large) : std::max(least_, expected * kMargin);
  return bound * patience_;
}

}  // namespace sluice
