// AWQ's gemm layout (quant_method "awq", https://github.com/casper-hansen/AutoAWQ), four bits:
//   X.qweight  I32 [K, N / 8]  number i of a word is that of output 0, 2, 4, 6, 1, 3, 5,
//                              7 of its eight
//   X.qzeros   I32 [G, N / 8]  zero points, likewise
//   X.scales   F16, BF16 or F32 [G, N]
// A weight is scale * (number - zero point).
#pragma once

#include <memory>
#include <string>

#include "services/model/published/published_matrix.h"

namespace sluice {

// As PublishedMatrix::Open; `stem` is the name without ".weight".
absl::StatusOr<std::unique_ptr<PublishedMatrix>> OpenAwq(const PackedFiles& files,
                                                         const std::string& stem, int64_t rows,
                                                         int64_t columns, int64_t group_size);

}  // namespace sluice
