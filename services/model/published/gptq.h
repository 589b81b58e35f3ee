// GPTQ (quant_method "gptq", https://github.com/AutoGPTQ/AutoGPTQ) of 2, 3, 4 or 8 bits b:
//   X.qweight  I32 [K b / 32, N]  numbers of an output run down its column, across words
//   X.qzeros   I32 [G, N b / 32]  zero points of a group run along the outputs; less 1 in files of
//                                 the first version (checkpoint_format "gptq"), modulo 2^b
//   X.scales   F16, BF16 or F32 [G, N]
//   X.g_idx    I32 [K], the group of each input; absent: neighbours
// A weight is scale * (number - zero point).
#pragma once

#include <memory>
#include <string>

#include "services/model/published/published_matrix.h"

namespace sluice {

// As PublishedMatrix::Open; `stem` is the name without ".weight".
absl::StatusOr<std::unique_ptr<PublishedMatrix>> OpenGptq(const PackedFiles& files,
                                                          const std::string& stem, int64_t rows,
                                                          int64_t columns,
                                                          const PublishedScheme& scheme);

}  // namespace sluice
