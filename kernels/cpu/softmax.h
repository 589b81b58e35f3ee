// Log-probabilities of rows of scores.
#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "kernels/backend.h"
#include "kernels/cpu/context.h"

namespace sluice {

// Ops::LogSoftmax. The sum of exponentials is FixedOrderSum of simd-inl.h.
void LogSoftmax(CpuContext& context, MatrixView x, MatrixView out);

// What LogSoftmax makes of element `index` of a row.
float LogProbability(absl::Span<const float> row, int64_t index);

}  // namespace sluice
