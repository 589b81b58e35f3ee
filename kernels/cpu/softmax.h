// Log-probabilities of rows of scores.
#pragma once

#include "kernels/backend.h"
#include "kernels/cpu/context.h"

namespace sluice {

// Backend::LogSoftmax. The sum of exponentials is FixedOrderSum of simd-inl.h.
void LogSoftmax(CpuContext& context, MatrixView x, MatrixView out);

}  // namespace sluice
