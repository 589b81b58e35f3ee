// What a step takes by its number of rows, as measured: flat as long as memory is the limit, rising
// where arithmetic is. Rows are counted exactly up to 8 and in eighths of octaves beyond. A
// measurement is forgotten after kForgottenAfter other steps, so that what was never measured and
// what was long ago are tried again.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "absl/time/time.h"

namespace sluice {

class StepCosts {
 public:
  static constexpr int64_t kForgottenAfter = 2048;

  void Add(int32_t rows, absl::Duration time);
  // A step of another kind: what was measured is older by one.
  void Pass() { ++num_steps_; }

  // Nothing has been measured of late.
  bool empty() const;
  bool Knows(int32_t rows) const;

  // In seconds: between the numbers measured on either side. More rows than were ever measured
  // cost, until they are, what the most measured do: somebody has to try. REQUIRES: !empty().
  double Of(int32_t rows) const;

 private:
  static constexpr int kNumBuckets = 8 + 8 * 16;
  struct Bucket {
    double rows = 0;  // mean
    double seconds = 0;
    int64_t latest = -1;  // step
  };

  static int BucketOf(int32_t rows);
  bool IsFresh(const Bucket& bucket) const {
    return bucket.latest >= 0 && num_steps_ - bucket.latest <= kForgottenAfter;
  }

  std::array<Bucket, kNumBuckets> buckets_ = {};
  int64_t num_steps_ = 0;
};

}  // namespace sluice
