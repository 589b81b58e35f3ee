// A row, or a head of one, as a block of kNormSums threads normalises it. After simt.h.
#pragma once

#include "kernels/cuda/kernels/elements.h"
#include "kernels/cuda/norm.h"

namespace sluice::cuda::SIMT_NAMESPACE {

// Of a thread's numbers so many are asked for at once and stay in registers: all of rows up to 4,096.
inline constexpr int kHeld = 16;
using Held = float[kHeld];

SIMT_DEVICE void Load(const float* from, int64_t width, Held& held) {
  SIMT_UNROLL
  for (int j = 0; j < kHeld; ++j) {
    const int64_t i = j * kNormSums + Thread();
    held[j] = i < width ? from[i] : 0.0f;
  }
}

// Calls f(j, i, x[i]) for the thread's numbers in order of i; j is its place among those held, or
// kHeld.
template <class F>
SIMT_DEVICE void ForNumbers(const float* x, int64_t width, const Held& held, F f) {
  SIMT_UNROLL
  for (int j = 0; j < kHeld; ++j) {
    const int64_t i = j * kNormSums + Thread();
    if (i < width) f(j, i, held[j]);
  }
  for (int64_t i = kHeld * kNormSums + Thread(); i < width; i += kNormSums) f(kHeld, i, x[i]);
}

struct NormParameters {
  const float* weight;  // [width]
  const float* bias;    // [width] or null
  float eps;
  bool centred;
};

// out[row][first + i] = the norm of x[i], 0 <= i < width. held and weights: the thread's numbers of x
// and of the weights. `scratch`: a number per warp.
SIMT_DEVICE void NormHeld(const float* x, int64_t width, const Held& held, const Held& weights,
                          const NormParameters& norm, const MatrixView& out, int64_t row,
                          int64_t first, float* scratch) {
  const auto size = static_cast<float>(width);
  float mean = 0;
  if (norm.centred) {
    float sum = 0;
    ForNumbers(x, width, held, [&](int, int64_t, float number) { sum += number; });
    mean = JoinThreads(sum, Plus(), scratch) / size;
  }
  float squares = 0;
  ForNumbers(x, width, held, [&](int, int64_t, float number) {
    const float distance = number - mean;
    squares = FusedMultiplyAdd(distance, distance, squares);
  });
  const float variance = JoinThreads(squares, Plus(), scratch) / size;
  const float scale = 1.0f / SquareRoot(variance + norm.eps);
  ForNumbers(x, width, held, [&](int j, int64_t i, float number) {
    const float weight = j < kHeld ? weights[j] : norm.weight[i];
    const float scaled = (number - mean) * scale * weight;
    const float shift = norm.bias == nullptr ? 0.0f : norm.bias[i];
    StoreElement(out, row, first + i, norm.bias == nullptr ? scaled : scaled + shift);
  });
}

}  // namespace sluice::cuda::SIMT_NAMESPACE
