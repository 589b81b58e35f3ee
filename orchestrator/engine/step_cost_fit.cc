#include "orchestrator/engine/step_cost_fit.h"

#include <algorithm>
#include <bit>

namespace sluice {
namespace {

constexpr int kFewestSteps = 4;        // of a size, before it counts
constexpr double kStepsInMean = 64;    // that count most
constexpr double kStepsToDrift = 256;  // in which other sizes follow
// A step that took so many times longer than its like was held up by something else.
constexpr double kMostTimesLonger = 4;
// Part of the smallest step that is fixed at least: a line through noise must not say that a step
// with nothing in it takes no time.
constexpr double kLeastFixedPart = 0.05;

}  // namespace

void StepCostFit::Observe(int num_positions, absl::Duration time) {
  const auto index = static_cast<size_t>(std::bit_width(static_cast<unsigned>(num_positions) - 1));
  const double seconds = absl::ToDoubleSeconds(time);
  if (num_positions < 1 || index >= sizes_.size() || seconds <= 0) return;
  Size& size = sizes_[index];
  const bool is_known = size.count >= kFewestSteps;
  const double ratio = is_known ? std::min(seconds / size.seconds, kMostTimesLonger) : 1;
  const double part = 1 / std::min<double>(++size.count, kStepsInMean);
  size.positions += part * (num_positions - size.positions);
  size.seconds += part * ((is_known ? ratio * size.seconds : seconds) - size.seconds);
  for (Size& other : sizes_) {
    if (&other != &size) other.seconds *= 1 + (ratio - 1) / kStepsToDrift;
  }
}

// Relative errors, the less the larger the step: what counts is how much longer a small step takes for
// each position more, and that there are others at all costs it something, too.
StepCost StepCostFit::current() const {
  double w = 0, wx = 0, wy = 0, wxx = 0, wxy = 0, least = 0;
  int num_known = 0;
  for (const Size& size : sizes_) {
    if (size.count < kFewestSteps) continue;
    if (num_known++ == 0) least = size.seconds;
    const double weight = 1 / (size.seconds * size.seconds * size.positions);
    w += weight;
    wx += weight * size.positions;
    wy += weight * size.seconds;
    wxx += weight * size.positions * size.positions;
    wxy += weight * size.positions * size.seconds;
  }
  if (num_known < 2) return {};
  const double slope = (w * wxy - wx * wy) / (w * wxx - wx * wx);
  if (!(slope > 0)) return {};
  return {.fixed = std::max((wy - slope * wx) / w, kLeastFixedPart * least), .per_position = slope};
}

}  // namespace sluice
