// Normalisation of rows.
#pragma once

#include "kernels/backend.h"
#include "kernels/cpu/context.h"

namespace sluice {

// Ops::RmsNorm. The sum of squares is FixedOrderSum of simd-inl.h.
void RmsNorm(CpuContext& context, MatrixView x, const float* weight, float eps, MatrixView out);

// How the heads of a row are normalised, each by itself: RmsNorm or, centred, LayerNorm.
struct HeadNorm {
  int head_dim = 0;
  const float* weight = nullptr;  // [D], or [heads, D] where every head has its own
  const float* bias = nullptr;    // [D] or null
  bool by_head = false;
  bool centred = false;
  float eps = 0;
};
// x [T, heads * D], in place.
void NormHeads(CpuContext& context, MatrixView x, const HeadNorm& norm);

// Ops::SumSquares. A run's sum is FixedOrderSum.
void SumSquares(CpuContext& context, MatrixView x, int num_slices, MatrixView out);
// Ops::RmsNormOfPart.
void RmsNormOfPart(CpuContext& context, MatrixView x, MatrixView squares, int64_t count,
                   const float* weight, float eps);

// Ops::LayerNorm. Both sums are FixedOrderSum; `bias` may be null.
void LayerNorm(CpuContext& context, MatrixView x, const float* weight, const float* bias, float eps,
               MatrixView out);

}  // namespace sluice
