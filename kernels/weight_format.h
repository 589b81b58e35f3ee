// How the elements of a weight matrix are stored, and the row of such a matrix as bytes.
//
// F32 and BF16 are plain elements. INT8, INT6, INT4 and FP8 are quantised, weights only: every group
// of 32 neighbouring inputs of one output shares a scale, and a weight is scale * q with a small
// number q: a whole one in INT8, INT6 and INT4, one of kernels/fp8.h in FP8. Groups run along K, so
// a slice of K at multiples of 32 has the bits of the whole, and tensor-parallel ranks may quantise
// each for themselves.
//
// A row of K weights as bytes, in order of k:
//   F32, BF16   K elements, little-endian
//   INT8        K / 32 groups of 34 bytes: the scale as BF16, then q as 32 signed bytes, each in
//               [-127, 127]
//   INT6        K / 32 groups of 26 bytes: the scale as BF16, then q + 32, q in [-32, 31], of four
//               weights in three bytes: the low and high halves of the first two hold the lower
//               four bits of each, the third their upper two bits, those of the first lowest
//   INT4        K / 32 groups of 18 bytes: the scale as BF16, then q + 8, q in [-8, 7], as 16
//               bytes; byte i holds weight 2i in its low and weight 2i + 1 in its high half
//   FP8         K / 32 groups of 34 bytes: the scale as BF16, at most 128, then the codes of q, none
//               of which is that of no number
//
// The scale is a BF16 number, and q is chosen for that number, so nothing is lost by its rounding.
// In INT6 and INT4 it is one of kernels/group_scale.h, which a kernel may keep in nine bits. In FP8
// it is a power of two, with which scale * q is a BF16 number; rows of others may have any scale,
// and a product may then round scale * q to BF16.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/types/span.h"

namespace sluice {

// GPU kernels carry these numbers in their names (tests/gpu).
enum class WeightFormat : uint8_t { kF32, kBF16, kInt8, kInt4, kFp8, kInt6 };

// Inputs that share a scale in quantised formats.
inline constexpr int64_t kWeightGroup = 32;

constexpr bool IsQuantized(WeightFormat format) {
  return format != WeightFormat::kF32 && format != WeightFormat::kBF16;
}

// Bytes of a row of `num_inputs` weights, a multiple of kWeightGroup in quantised formats.
constexpr size_t RowBytes(WeightFormat format, int64_t num_inputs) {
  switch (format) {
    case WeightFormat::kF32:
      return static_cast<size_t>(num_inputs) * 4;
    case WeightFormat::kBF16:
      return static_cast<size_t>(num_inputs) * 2;
    case WeightFormat::kInt8:
    case WeightFormat::kFp8:
      return static_cast<size_t>(num_inputs / kWeightGroup) * 34;
    case WeightFormat::kInt6:
      return static_cast<size_t>(num_inputs / kWeightGroup) * 26;
    case WeightFormat::kInt4:
      return static_cast<size_t>(num_inputs / kWeightGroup) * 18;
  }
  return 0;
}

// "F32", "BF16", "INT8", "INT6", "INT4", "FP8".
constexpr std::string_view Name(WeightFormat format) {
  switch (format) {
    case WeightFormat::kF32:
      return "F32";
    case WeightFormat::kBF16:
      return "BF16";
    case WeightFormat::kInt8:
      return "INT8";
    case WeightFormat::kInt6:
      return "INT6";
    case WeightFormat::kInt4:
      return "INT4";
    case WeightFormat::kFp8:
      return "FP8";
  }
  return "?";
}

// Writes `row` in `format`. BF16 rounds to nearest even. INT8 takes the scale that holds the
// largest weight of a group; INT6 and INT4, of 16 scales near that, the one with the least squared
// error; FP8 that of Fp8ScaleFor. The bits are the same on every machine. Weights that no scale
// holds become the largest that one does, those that are not finite make their whole group not a
// number. REQUIRES: out.size() == RowBytes(format, row.size()); in quantised formats row.size() is
// a multiple of kWeightGroup.
void EncodeRow(WeightFormat format, absl::Span<const float> row, absl::Span<std::byte> out);

// The numbers q of a group that begins at `group`; of FP8 their codes.
// REQUIRES: `format` is quantised; quotients has kWeightGroup elements.
void ReadQuotients(WeightFormat format, const std::byte* group, int8_t* quotients);

// INT6 groups as INT8 groups of the same scales and numbers.
// REQUIRES: `int6` is whole groups, and `int8` as many.
void Int8FromInt6(absl::Span<const std::byte> int6, absl::Span<std::byte> int8);

// The exact weights of a row that EncodeRow wrote, or that a file holds.
// REQUIRES: bytes.size() == RowBytes(format, row.size()).
void DecodeRow(WeightFormat format, absl::Span<const std::byte> bytes, absl::Span<float> row);

}  // namespace sluice
