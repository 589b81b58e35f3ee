// bitsandbytes' four bits (quant_method "bitsandbytes"): X = "NAME.weight" is
//   X                U8 [N K / 2, 1]  codes of the flattened weights, the first in the upper half
//   X.quant_map      F32, F16 or BF16 [16]: the number of each code
//   X.absmax         the same types: a scale for each block of weights, or, nested, U8 codes
//   X.quant_state.bitsandbytes__nf4 (or __fp4)  U8: JSON with blocksize and shape and, nested,
//                                     nested_blocksize and nested_offset
//   X.nested_absmax, X.nested_quant_map  the same types: of nested scales
// A weight is the number of its code times the scale; a nested scale is the number of its own code
// times its block's nested_absmax, plus nested_offset.
#pragma once

#include <memory>
#include <string>

#include "services/model/published/published_matrix.h"

namespace sluice {

// As PublishedMatrix::Open.
absl::StatusOr<std::unique_ptr<PublishedMatrix>> OpenBitsAndBytes(const PackedFiles& files,
                                                                  const std::string& name,
                                                                  int64_t rows, int64_t columns);

}  // namespace sluice
