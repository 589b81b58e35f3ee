#include "orchestrator/drafts/step_costs.h"

#include <algorithm>
#include <cmath>

#include "kernels/check.h"

namespace sluice {
namespace {

// Of the latest measurement in a mean.
constexpr double kWeight = 1.0 / 8;
// One that was held up by something else counts as no more than this many times the mean.
constexpr double kMostTimes = 4;

}  // namespace

int StepCosts::BucketOf(int32_t rows) {
  if (rows <= 8) return std::max(rows, 1) - 1;
  return std::min(8 + static_cast<int>(8 * std::log2(rows / 8.0)), kNumBuckets - 1);
}

void StepCosts::Add(int32_t rows, absl::Duration time) {
  Bucket& bucket = buckets_[BucketOf(rows)];
  const double seconds = absl::ToDoubleSeconds(time);
  if (IsFresh(bucket)) {
    bucket.rows += kWeight * (rows - bucket.rows);
    bucket.seconds += kWeight * (std::min(seconds, kMostTimes * bucket.seconds) - bucket.seconds);
  } else {
    bucket.rows = rows;
    bucket.seconds = seconds;
  }
  bucket.latest = ++num_steps_;
}

bool StepCosts::empty() const {
  return std::none_of(buckets_.begin(), buckets_.end(),
                      [this](const Bucket& bucket) { return IsFresh(bucket); });
}

bool StepCosts::Knows(int32_t rows) const { return IsFresh(buckets_[BucketOf(rows)]); }

double StepCosts::Of(int32_t rows) const {
  const int at = BucketOf(rows);
  int below = at;
  while (below >= 0 && !IsFresh(buckets_[below])) --below;
  int above = at;
  while (above < kNumBuckets && !IsFresh(buckets_[above])) ++above;
  SLUICE_CHECK(below >= 0 || above < kNumBuckets);
  if (above == kNumBuckets) return buckets_[below].seconds;
  if (below < 0 || below == above) return buckets_[above].seconds;
  const Bucket& low = buckets_[below];
  const Bucket& high = buckets_[above];
  const double part = std::clamp((rows - low.rows) / (high.rows - low.rows), 0.0, 1.0);
  return low.seconds + part * (high.seconds - low.seconds);
}

}  // namespace sluice
