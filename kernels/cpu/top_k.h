// The largest elements of a row.
#pragma once

#include "absl/types/span.h"
#include "kernels/backend.h"
#include "kernels/cpu/context.h"

namespace sluice {

// Ops::TopK.
void TopK(CpuContext& context, MatrixView x, int k, absl::Span<float> values,
          absl::Span<int32_t> ids);

}  // namespace sluice
