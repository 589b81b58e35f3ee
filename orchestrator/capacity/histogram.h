// Counts of values by their logarithm: quantiles of any number of times in constant memory.
#pragma once

#include <cstdint>
#include <vector>

namespace sluice {

// Values from 1 us to 10 days are told apart to within 1/256 of themselves; smaller and larger ones
// count as those.
class LogHistogram {
 public:
  void Add(double value, int64_t count = 1);
  void Add(const LogHistogram& other);

  int64_t count() const { return count_; }
  double mean() const { return count_ == 0 ? 0 : sum_ / static_cast<double>(count_); }
  double max() const { return max_; }
  // The smallest value that at least `share` of the values do not exceed, to within the resolution.
  // 0 where there are none. REQUIRES: 0 <= share <= 1.
  double Quantile(double share) const;
  // The share of values that are at most `value`, to within the resolution; 1 where there are none.
  double ShareWithin(double value) const;

 private:
  static size_t BucketOf(double value);
  static double LowerEdge(size_t bucket);

  std::vector<int64_t> counts_;  // by bucket, as far as there are values
  int64_t count_ = 0;
  double sum_ = 0;
  double max_ = 0;
};

}  // namespace sluice
