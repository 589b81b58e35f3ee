// Operations that take each element by itself.
#pragma once

#include "absl/types/span.h"
#include "kernels/backend.h"
#include "kernels/cpu/context.h"

namespace sluice {

// x[t, n] += bias[n].
void AddBias(CpuContext& context, const float* bias, MatrixView x);

// Ops::Scale.
void Scale(CpuContext& context, float factor, MatrixView x);

// Ops::ScaleRows.
void ScaleRows(CpuContext& context, const float* factors, MatrixView x);

// Ops::SoftCap.
void SoftCap(CpuContext& context, float cap, MatrixView x);

// Ops::AddResidual.
void AddResidual(CpuContext& context, MatrixView x, MatrixView residual);

// Ops::TreeAdd.
void TreeAdd(CpuContext& context, absl::Span<const MatrixView> partials, MatrixView out);

}  // namespace sluice
