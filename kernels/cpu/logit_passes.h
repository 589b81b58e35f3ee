// Passes over one row of n >= 1 logits, a vector at a time, for the choice of a token. Results
// depend on the row alone, not on the width of a vector.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice {

// Elements whose weights WeightSums adds up into one of its sums.
inline constexpr int64_t kWeightRun = 4096;

// What GatherAtLeast may write beyond its last result.
inline constexpr size_t kGatherPadding = 16;

// out = x, or -infinity where bit i % 32 of allowed[i / 32] is 0; `allowed` may be null. The index
// of the first x that is infinite or no number, or n.
int64_t CopyAllowed(const float* x, int64_t n, const uint32_t* allowed, float* out);

float LargestLogit(const float* x, int64_t n);

// The first index of `value`, or n.
int64_t FirstEqual(const float* x, int64_t n, float value);

// The ids of all x >= threshold, ascending, and their values; how many there are. Both need room
// for n + kGatherPadding.
size_t GatherAtLeast(const float* x, int64_t n, float threshold, int32_t* ids, float* values);

// The weight of a logit is exp((x - largest) * inverse_temperature), to about one unit in the last
// place; 0 where that is below e^-708.
// REQUIRES: x <= largest, which is finite; inverse_temperature > 0, finite.
struct WeightOf {
  float largest = 0;
  double inverse_temperature = 1;
};
void Weights(const float* x, int64_t n, WeightOf weight, double* out);
// run_sums[r] = the sum of the weights of run r, kWeightRun elements; returns their sum.
double WeightSums(const float* x, int64_t n, WeightOf weight, double* run_sums);
// The sum of weight * log(weight) over all weights above 0.
double WeightedLogSum(const float* x, int64_t n, WeightOf weight);

// Over all x above -infinity: how many, and the sum of (x - origin)^power, power 1 or 2.
struct Moment {
  int64_t count = 0;
  double sum = 0;
};
Moment MomentOf(const float* x, int64_t n, double origin, int power);

}  // namespace sluice
