// Rows and elements of a matrix by number.
#pragma once

#include "absl/types/span.h"
#include "kernels/backend.h"
#include "kernels/cpu/context.h"

namespace sluice {

// Ops::GatherRows.
void GatherRows(CpuContext& context, MatrixView table, absl::Span<const int32_t> rows,
                MatrixView out);

// Ops::GatherElements.
void GatherElements(MatrixView x, absl::Span<const MatrixElement> elements,
                    absl::Span<float> values);

}  // namespace sluice
