// A token chosen from every row of logits.
#pragma once

#include "absl/types/span.h"
#include "kernels/backend.h"
#include "kernels/cpu/context.h"

namespace sluice {

// Ops::Sample.
void Sample(CpuContext& context, MatrixView logits, absl::Span<const SampleRow> rows,
            absl::Span<SampledRow> results);

}  // namespace sluice
