// How a quantised matrix X [N, K] lies in a file, as two tensors (docs/weight_formats.md):
//   X        the quotients: INT8 as I8 [N, K], INT6 as U8 [N, 3 K / 4], four in three bytes, INT4 as
//            U8 [N, K / 2], two in a byte; FP8 as F8_E4M3 [N, K]
//   X_scale  the scales of the groups, BF16 [N, K / group]
// and how a row of kernels/weight_format.h is taken apart and put together. Pure functions.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/weight_format.h"
#include "services/model/tensor_slice.h"

namespace sluice {

inline constexpr char kScaleSuffix[] = "_scale";
inline constexpr char kScaleType[] = "BF16";

// The safetensors type of X: "I8", "U8" or "F8_E4M3". Here as below, `format` is a quantised one.
const char* QuotientType(WeightFormat format);
// The shape of X for a matrix of this shape.
MatrixShape QuotientShape(WeightFormat format, MatrixShape shape);
// The shape of X_scale.
MatrixShape ScaleShape(WeightFormat format, MatrixShape shape);
// Where in X, or in X_scale, a slice of the matrix is. REQUIRES: its columns begin and end at
// multiples of the format's group.
TensorSlice QuotientSlice(WeightFormat format, const TensorSlice& slice);
TensorSlice ScaleSlice(WeightFormat format, const TensorSlice& slice);

// Rows of any number, as EncodeRow writes them one after another, from their quotients and scales.
// INVALID_ARGUMENT where a quotient is none (-128 in INT8, no number in FP8), a scale of INT6 or INT4
// is not one of kernels/group_scale.h, or a scale of FP8 is larger than kLargestFp8Scale.
// REQUIRES: out is as large as both together.
absl::Status JoinGroups(WeightFormat format, absl::Span<const std::byte> quotients,
                        absl::Span<const std::byte> scales, absl::Span<std::byte> out);

// The inverse.
void SplitGroups(WeightFormat format, absl::Span<const std::byte> rows,
                 absl::Span<std::byte> quotients, absl::Span<std::byte> scales);

}  // namespace sluice
