// Normalisation of rows.
#pragma once

#include "kernels/backend.h"
#include "kernels/cpu/context.h"

namespace sluice {

// Ops::RmsNorm. The sum of squares is FixedOrderSum of simd-inl.h.
void RmsNorm(CpuContext& context, MatrixView x, const float* weight, float eps, MatrixView out);

// The same for every head of x [T, heads * head_dim] by itself, in place.
void HeadRmsNorm(CpuContext& context, MatrixView x, int head_dim, const float* weight, float eps);

// Ops::LayerNorm. Both sums are FixedOrderSum; `bias` may be null.
void LayerNorm(CpuContext& context, MatrixView x, const float* weight, const float* bias, float eps,
               MatrixView out);

}  // namespace sluice
