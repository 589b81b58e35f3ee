// compressed-tensors "pack-quantized" (https://github.com/neuralmagic/compressed-tensors) of b = 4
// or 8 bits:
//   X.weight_packed      I32 [N, K b / 32], numbers plus 2^(b - 1) run along the inputs
//   X.weight_scale       F16, BF16 or F32 [N, G]
//   X.weight_shape       I64 or I32 [2]: N, K
//   X.weight_zero_point  I32 [N b / 32, G], where not symmetric: zero points plus 2^(b - 1) run
//                        along the outputs
//   X.weight_g_idx       I32 [K], the group of each input; absent: neighbours
// A weight is scale * (number - zero point).
#pragma once

#include <memory>
#include <string>

#include "services/model/published/published_matrix.h"

namespace sluice {

// As PublishedMatrix::Open; `stem` is the name without ".weight".
absl::StatusOr<std::unique_ptr<PublishedMatrix>> OpenPackedInt(const PackedFiles& files,
                                                               const std::string& stem,
                                                               int64_t rows, int64_t columns,
                                                               const PublishedScheme& scheme);

}  // namespace sluice
