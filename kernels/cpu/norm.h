// Normalisation of rows.
#pragma once

#include "kernels/backend.h"
#include "kernels/cpu/context.h"

namespace sluice {

// Backend::RmsNorm. The sum of squares is FixedOrderSum of simd-inl.h.
void RmsNorm(CpuContext& context, MatrixView x, const float* weight, float eps, MatrixView out);

}  // namespace sluice
