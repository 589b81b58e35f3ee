// compressed-tensors "int-quantized": X.weight is I8 [N, K], X.weight_scale F16, BF16 or F32 [N,
// G], or [1] of all outputs, and X.weight_zero_point, where not symmetric, I8 of the same shape. A
// weight is scale * (number - zero point).
#pragma once

#include <memory>
#include <string>

#include "services/model/published/published_matrix.h"

namespace sluice {

// As PublishedMatrix::Open; `stem` is the name without ".weight".
absl::StatusOr<std::unique_ptr<PublishedMatrix>> OpenPlainInt(const PackedFiles& files,
                                                              const std::string& stem, int64_t rows,
                                                              int64_t columns,
                                                              const PublishedScheme& scheme);

}  // namespace sluice
