#include "orchestrator/step_time/step_time_model.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels/check.h"

namespace sluice {
namespace {

// A measurement counts as no more than so many times the mean: the rest is something else's delay.
constexpr double kMostTimesLonger = 4;
// Measurements that count in a mean: of steps of a number of rows, and of everything else.
constexpr int kFew = 8;
constexpr int kMany = 64;
// Steps of a size before the line goes through them.
constexpr int kFewestSteps = 4;
// Steps in which sizes that are not seen follow those that are.
constexpr double kStepsToDrift = 256;
// Part of the smallest step that is fixed at least: a line through noise must not say that a step with
// nothing in it takes no time.
constexpr double kLeastFixedPart = 0.05;
// Positions a sequence from which on a step's time is that of its prompts.
constexpr int kPromptPositions = 16;

}  // namespace

double StepTimeModel::Mean::Add(double added_size, double added_seconds, int most) {
  const double times = count > 0 ? std::min(added_seconds / seconds, kMostTimesLonger) : 1;
  const double weight = 1.0 / std::min(++count, most);
  size += weight * (added_size - size);
  seconds += weight * ((count > 1 ? times * seconds : added_seconds) - seconds);
  return times;
}

void StepTimeModel::Observe(const StepSample& sample) {
  bounds_.Completed(sample.positions, sample.latency);
  const double busy = absl::ToDoubleSeconds(sample.busy);
  if (busy <= 0 || sample.sequences < 1) return;
  step_.Add(sample.positions, busy, kMany);
  if (sample.positions >= sample.sequences * kPromptPositions) {
    prompt_position_.Add(sample.positions, busy / sample.positions, kMany);
  }
  if (sample.positions == sample.sequences) ObservePrice(sample);
  if (sample.goes_by_rows()) ObserveRows(sample);
}

// ---- By rows ----

int StepTimeModel::RowSizeOf(int32_t rows) {
  if (rows <= 8) return std::max(rows, 1) - 1;
  return std::min(8 + static_cast<int>(8 * std::log2(rows / 8.0)), kNumRowSizes - 1);
}

void StepTimeModel::ObserveRows(const StepSample& sample) {
  Mean& mean = (sample.ahead ? ahead_ : after_results_)[RowSizeOf(sample.rows)];
  ++num_row_steps_;
  if (!IsFresh(mean)) mean = {};
  mean.Add(sample.rows, absl::ToDoubleSeconds(sample.cost), kFew);
  mean.latest = num_row_steps_;
}

const StepTimeModel::Mean* StepTimeModel::KnownAhead(int row_size) const {
  return IsFresh(ahead_[row_size]) ? &ahead_[row_size] : nullptr;
}

const StepTimeModel::Mean* StepTimeModel::Known(int row_size) const {
  const Mean& mean = after_results_[row_size];
  return IsFresh(mean) ? &mean : KnownAhead(row_size);
}

template <class KnownOf>
double StepTimeModel::Between(int32_t rows, const KnownOf& known) {
  const int at = RowSizeOf(rows);
  const Mean* below = nullptr;
  for (int size = at; size >= 0 && below == nullptr; --size) below = known(size);
  const Mean* above = nullptr;
  for (int size = at; size < kNumRowSizes && above == nullptr; ++size) above = known(size);
  SLUICE_CHECK(below != nullptr || above != nullptr);
  if (above == nullptr) return below->seconds;
  if (below == nullptr || below == above) return above->seconds;
  const double part = std::clamp((rows - below->size) / (above->size - below->size), 0.0, 1.0);
  return below->seconds + part * (above->seconds - below->seconds);
}

double StepTimeModel::Expected(int32_t rows) const {
  return Between(rows, [this](int size) { return Known(size); });
}

double StepTimeModel::ExpectedAhead(int32_t rows) const {
  const bool any =
      std::any_of(ahead_.begin(), ahead_.end(), [this](const Mean& mean) { return IsFresh(mean); });
  if (!any) return Expected(rows);
  return Between(rows, [this](int size) { return KnownAhead(size); });
}

// ---- Price ----

void StepTimeModel::ObservePrice(const StepSample& sample) {
  const auto index =
      static_cast<size_t>(std::bit_width(static_cast<unsigned>(sample.sequences) - 1));
  if (index >= prices_.size()) return;
  Mean& mean = prices_[index];
  const bool was_known = mean.count >= kFewestSteps;
  const double times = mean.Add(sample.sequences, absl::ToDoubleSeconds(sample.busy), kMany);
  if (!was_known) return;
  for (Mean& other : prices_) {
    if (&other != &mean) other.seconds *= 1 + (times - 1) / kStepsToDrift;
  }
}

// The larger a step, the less its error counts: what matters is how much longer a small step takes for
// each row more, and that there are others at all costs it something, too.
StepCost StepTimeModel::Price() const {
  double w = 0, wx = 0, wy = 0, wxx = 0, wxy = 0, least = 0;
  int num_known = 0;
  for (const Mean& mean : prices_) {
    if (mean.count < kFewestSteps) continue;
    if (num_known++ == 0) least = mean.seconds;
    const double weight = 1 / (mean.seconds * mean.seconds * mean.size);
    w += weight;
    wx += weight * mean.size;
    wy += weight * mean.seconds;
    wxx += weight * mean.size * mean.size;
    wxy += weight * mean.size * mean.seconds;
  }
  if (num_known < 2) return {};
  const double slope = (w * wxy - wx * wy) / (w * wxx - wx * wx);
  if (!(slope > 0)) return {};
  return {.fixed = std::max((wy - slope * wx) / w, kLeastFixedPart * least), .per_position = slope};
}

absl::Duration StepTimeModel::TimeFor(int32_t num_positions, int32_t num_tokens) const {
  return absl::Seconds(num_positions * prompt_position_.seconds + num_tokens * step_.seconds);
}

}  // namespace sluice
