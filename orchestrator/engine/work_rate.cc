#include "orchestrator/engine/work_rate.h"

#include <algorithm>

namespace sluice {
namespace {

constexpr double kCountMost = 64;     // in the means
constexpr double kMostTimesMore = 4;  // than the mean: the rest is something else's delay
constexpr int kPromptPositions = 16;  // a sequence: most of the step's time is theirs

}  // namespace

void WorkRate::Mean::Add(double observed) {
  if (count > 0) observed = std::min(observed, kMostTimesMore * seconds);
  seconds += (observed - seconds) / std::min<double>(++count, kCountMost);
}

void WorkRate::Observe(int num_sequences, int num_positions, absl::Duration time) {
  const double seconds = absl::ToDoubleSeconds(time);
  if (seconds <= 0) return;
  step_.Add(seconds);
  if (num_positions >= num_sequences * kPromptPositions) position_.Add(seconds / num_positions);
}

absl::Duration WorkRate::TimeFor(int num_positions, int num_tokens) const {
  return absl::Seconds(num_positions * position_.seconds + num_tokens * step_.seconds);
}

}  // namespace sluice
