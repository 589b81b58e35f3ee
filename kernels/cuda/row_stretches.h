// Rows as wide as a vocabulary, cut into stretches for blocks of threads: one row keeps many of them
// busy. Sums run over a stretch and then over stretches, in an order that follows from the width.
#pragma once

#include <cstdint>

namespace sluice::cuda {

inline constexpr int kStretchThreads = 256;
inline constexpr int kStretchColumns = 2048;

constexpr int64_t NumStretches(int64_t columns) {
  return (columns + kStretchColumns - 1) / kStretchColumns;
}

// Of some scores: the largest, and the sum of exp(score - largest).
struct ExponentialSum {
  double sum = 0;
  float largest = 0;
};

}  // namespace sluice::cuda
