#include "orchestrator/capacity/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace sluice {
namespace {

constexpr double kSmallest = 1e-6;
constexpr double kLargest = 864000;
constexpr int kMantissaBits = 8;

// Of a positive double: exponent and first bits of the mantissa, which rise with its logarithm.
uint64_t LeadingBits(double value) {
  return std::bit_cast<uint64_t>(value) >> (52 - kMantissaBits);
}

}  // namespace

size_t LogHistogram::BucketOf(double value) {
  return LeadingBits(std::clamp(value, kSmallest, kLargest)) - LeadingBits(kSmallest);
}

double LogHistogram::LowerEdge(size_t bucket) {
  return std::bit_cast<double>((bucket + LeadingBits(kSmallest)) << (52 - kMantissaBits));
}

void LogHistogram::Add(double value, int64_t count) {
  const size_t bucket = BucketOf(value);
  if (bucket >= counts_.size()) counts_.resize(bucket + 1);
  counts_[bucket] += count;
  count_ += count;
  sum_ += value * static_cast<double>(count);
  max_ = std::max(max_, value);
}

void LogHistogram::Add(const LogHistogram& other) {
  if (other.counts_.size() > counts_.size()) counts_.resize(other.counts_.size());
  for (size_t i = 0; i < other.counts_.size(); ++i) counts_[i] += other.counts_[i];
  count_ += other.count_;
  sum_ += other.sum_;
  max_ = std::max(max_, other.max_);
}

double LogHistogram::Quantile(double share) const {
  const auto rank =
      std::max<int64_t>(std::llround(std::ceil(share * static_cast<double>(count_))), 1);
  int64_t before = 0;
  for (size_t bucket = 0; bucket < counts_.size(); ++bucket) {
    if (before + counts_[bucket] < rank) {
      before += counts_[bucket];
      continue;
    }
    const double part =
        (static_cast<double>(rank - before) - 0.5) / static_cast<double>(counts_[bucket]);
    const double low = LowerEdge(bucket);
    return std::min(low + part * (LowerEdge(bucket + 1) - low), max_);
  }
  return max_;
}

double LogHistogram::ShareWithin(double value) const {
  if (count_ == 0) return 1;
  const size_t end = std::min(BucketOf(value) + 1, counts_.size());
  int64_t within = 0;
  for (size_t bucket = 0; bucket < end; ++bucket) within += counts_[bucket];
  return static_cast<double>(within) / static_cast<double>(count_);
}

}  // namespace sluice
