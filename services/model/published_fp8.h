// FP8 matrices as others publish them (quant_method "fp8", "fbgemm_fp8" or "compressed-tensors"): X
// is F8_E4M3 [N, K], and X_scale or X_scale_inv beside it, in F32, F16 or BF16, has
//
//   [] or [1]                          one scale for all of X
//   [N, 1] or [N]                      one for each output
//   [N / 128, K / 128], rounded up     one for each 128 outputs and inputs, or for blocks of what
//                                      config.json says
//
// A weight is its scale times its number. Scales of activations ("input_scale") are not read:
// activations are BF16 here. Pure functions of immutable files.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/weight_format.h"
#include "services/model/checkpoint.h"
#include "services/model/tensor_slice.h"

namespace sluice {

// Whether the files hold `name` as FP8 numbers.
bool IsPublishedFp8(const Checkpoint& checkpoint, const std::string& name);

// NOT_FOUND or INVALID_ARGUMENT, naming file and tensor, where `name` has another shape or its
// scales are missing or none of the above.
absl::Status CheckPublishedFp8(const Checkpoint& checkpoint, const std::string& name,
                               MatrixShape shape, MatrixShape block);

// Reads rows of `name`, which CheckPublishedFp8 has found in order, in a format: as FP8 with each
// group's scale rounded to BF16, else as numbers that are exact in F32 but for the rounding of the
// product. INVALID_ARGUMENT where a code is no number, or a scale too large for FP8 rows.
// REQUIRES: `as` is FP8, F32 or BF16; in FP8 columns of slice and block begin and end at multiples
// of kWeightGroup; out has the size of the rows.
absl::Status ReadPublishedFp8(const Checkpoint& checkpoint, const std::string& name,
                              MatrixShape shape, MatrixShape block, const TensorSlice& slice,
                              WeightFormat as, absl::Span<std::byte> out);

}  // namespace sluice
