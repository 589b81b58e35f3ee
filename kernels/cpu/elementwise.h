// Operations that take each element by itself.
#pragma once

#include "absl/types/span.h"
#include "kernels/backend.h"
#include "kernels/cpu/context.h"

namespace sluice {

// Backend::AddBias.
void AddBias(CpuContext& context, const float* bias, MatrixView x);

// Backend::Scale.
void Scale(CpuContext& context, float factor, MatrixView x);

// Backend::AddResidual.
void AddResidual(CpuContext& context, MatrixView x, MatrixView residual);

// Backend::TreeAdd.
void TreeAdd(CpuContext& context, absl::Span<const MatrixView> partials, MatrixView out);

}  // namespace sluice
