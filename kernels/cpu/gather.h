// Rows of a table by number.
#pragma once

#include "absl/types/span.h"
#include "kernels/backend.h"
#include "kernels/cpu/context.h"

namespace sluice {

// Backend::EmbeddingGather.
void EmbeddingGather(CpuContext& context, MatrixView table, absl::Span<const int32_t> ids,
                     MatrixView out);

}  // namespace sluice
