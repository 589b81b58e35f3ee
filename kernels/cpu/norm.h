// Normalisation of rows.
#pragma once

#include "kernels/backend.h"
#include "kernels/cpu/context.h"

namespace sluice {

// Backend::RmsNorm. The sum of squares is FixedOrderSum of simd-inl.h.
void RmsNorm(CpuContext& context, MatrixView x, const float* weight, float eps, MatrixView out);

// Backend::HeadRmsNorm.
void HeadRmsNorm(CpuContext& context, MatrixView x, int head_dim, const float* weight, float eps);

// Backend::LayerNorm. Both sums are FixedOrderSum; `bias` may be null.
void LayerNorm(CpuContext& context, MatrixView x, const float* weight, const float* bias, float eps,
               MatrixView out);

}  // namespace sluice
