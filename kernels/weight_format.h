// How the elements of a weight matrix are stored, and the row of such a matrix as bytes.
//
// F32 and BF16 are plain elements. INT8, INT6, INT4 and FP8 are quantised, weights only: every group
// of 32 neighbouring inputs of one output shares a scale (INT8_G64: of 64), and a weight is scale * q with a small
// number q: a whole one in INT8, INT6 and INT4, one of kernels/fp8.h in FP8. Groups run along K, so
// a slice of K at multiples of 32 has the bits of the whole, and tensor-parallel ranks may quantise
// each for themselves.
//
// A row of K weights as bytes, in order of k:
//   F32, BF16   K elements, little-endian
//   INT8        K / 32 groups of 34 bytes: the scale as BF16, then q as 32 signed bytes, each in
//               [-127, 127]
//   INT8_G64    K / 64 groups of 66 bytes, as INT8: 64 inputs share a scale
//   INT6        K / 32 groups of 26 bytes: the scale as BF16, then q + 32, q in [-32, 31], of four
//               weights in three bytes: the low and high halves of the first two hold the lower
//               four bits of each, the third their upper two bits, those of the first lowest
//   INT4        K / 32 groups of 18 bytes: the scale as BF16, then q + 8, q in [-8, 7], as 16
//               bytes; byte i holds weight 2i in its low and weight 2i + 1 in its high half
//   FP8         K / 32 groups of 34 bytes: the scale as BF16, at most 128, then the codes of q, none
//               of which is that of no number
//   INT4_ZP     K / 32 groups of 20 bytes: scale and zero point z as one word (affine_word.h), then
//               q in [0, 15] as 16 bytes, two in a byte as in INT4. A weight is scale * (q - z)
//   INT8_ZP     K / 32 groups of 36 bytes: the same with q in [0, 255] as 32 bytes
//   INT4_ZP_G128, INT8_ZP_G128  the same in groups of 128: 68 and 132 bytes
//   INT4_K      K / 32 groups of 22 bytes: scales of two levels (two_level_scales.h), then q in
//               [0, 15] as in INT4_ZP
//   INT6_K      K / 32 groups of 31 bytes: the same, then q + 32, q in [-32, 31], as in INT6
//   INT4_K_G128, INT6_K_G128  the same in groups of 128: 76 and 112 bytes
//   MXFP4       K / 32 groups of 17 bytes: the scale as one byte s, for 2^(s - 127), then 16 bytes of
//               codes of kernels/fp4.h, two in a byte as in INT4
//
// The formats with zero points hold what AWQ, GPTQ and compressed-tensors files hold, those with scales
// of two levels what GGUF files do, MXFP4 what gpt-oss has for its experts.
//
// The scale is a BF16 number, and q is chosen for that number, so nothing is lost by its rounding.
// In INT6 and INT4 it is one of kernels/group_scale.h, which a kernel may keep in nine bits. In FP8
// it is a power of two, with which scale * q is a BF16 number; rows of others may have any scale,
// and a product may then round scale * q to BF16.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>

#include "absl/types/span.h"
#include "kernels/weight_codecs.h"

namespace sluice {

// GPU kernels carry these numbers in their names (tests/gpu).
enum class WeightFormat : uint8_t {
  kF32,
  kBF16,
  kInt8,
  kInt4,
  kFp8,
  kInt6,
  kInt8G64,
  kInt4Zp,
  kInt8Zp,
  kInt4ZpG128,
  kInt8ZpG128,
  kInt4K,
  kInt6K,
  kInt4KG128,
  kInt6KG128,
  kMxFp4
};

// How the weights of a group are stored.
enum class WeightCodes : uint8_t {
  kElements,  // the weights themselves; a group is one of them
  kSigned,    // a signed byte each, [-127, 127]
  kPacked,    // a few bits each, several in a byte
  kFp8,       // a byte each: a code of kernels/fp8.h
  kOffset,    // numbers from which the zero point of their group is subtracted
  kFp4,       // half a byte each: a code of kernels/fp4.h
};

// Which numbers a group may have as its scale: BF16 numbers, but where it says otherwise.
enum class WeightScales : uint8_t {
  kNone,       // groups have none
  kBFloat16,   // any
  kCoded,      // those of kernels/group_scale.h, which a kernel may keep in nine bits
  kFp8,        // up to kLargestFp8Scale
  kWithZero,   // words of kernels/affine_word.h
  kTwoLevels,  // those of kernels/two_level_scales.h
  kPowers,     // powers of two, as one byte (kernels/fp4.h)
};

// All that differs from one format to the next.
struct WeightFormatTraits {
  WeightFormat format;
  std::string_view name;  // "INT8"
  const char* flag;       // the value of --weights: "int8"
  bool is_selectable;     // whether --weights accepts it
  int bits;               // of a weight
  WeightCodes codes;
  WeightScales scales;
  int64_t group;        // neighbouring inputs that share a scale; 1 where there is none
  int64_t group_bytes;  // of a group with its scale
  int version;          // of the encoding in files
  WeightFormat head;    // the format of the LM head where this one is selected
  // The format of a matrix whose runs of inputs are no multiple of the group.
  WeightFormat ungrouped;
  // The format as whose rows each kind of device packs a matrix: this one, or one that holds the same
  // scales and numbers, or BF16, to which weights are rounded.
  WeightFormat on_cpu, on_gpu;
  bool takes_fp8_activations;  // whether ActivationFormat::kFp8 goes with it
  EncodeGroups* encode;
  DecodeGroups* decode;
  ReadCodes* read_codes;  // null where there are no groups, or a weight is not scale * q
};

// One entry for each format, in the order of WeightFormat. To add a format: an entry here, and its
// functions in weight_codecs.cc; and, where no other format's kernels multiply it, what the compiler
// then asks for in cpu/gemm_portable.cc, cpu/gemm_quantized_codes-inl.h and cuda/tile_image.h.
inline constexpr WeightFormatTraits kWeightFormats[] = {
    {.format = WeightFormat::kF32,
     .name = "F32",
     .flag = "f32",
     .is_selectable = true,
     .bits = 32,
     .codes = WeightCodes::kElements,
     .scales = WeightScales::kNone,
     .group = 1,
     .group_bytes = 4,
     .version = 1,
     .head = WeightFormat::kF32,
     .ungrouped = WeightFormat::kF32,
     .on_cpu = WeightFormat::kF32,
     .on_gpu = WeightFormat::kF32,
     .takes_fp8_activations = false,
     .encode = EncodeF32,
     .decode = DecodeF32,
     .read_codes = nullptr},
    {.format = WeightFormat::kBF16,
     .name = "BF16",
     .flag = "bf16",
     .is_selectable = true,
     .bits = 16,
     .codes = WeightCodes::kElements,
     .scales = WeightScales::kNone,
     .group = 1,
     .group_bytes = 2,
     .version = 1,
     .head = WeightFormat::kBF16,
     .ungrouped = WeightFormat::kBF16,
     .on_cpu = WeightFormat::kBF16,
     .on_gpu = WeightFormat::kBF16,
     .takes_fp8_activations = false,
     .encode = EncodeBF16,
     .decode = DecodeBF16,
     .read_codes = nullptr},
    {.format = WeightFormat::kInt8,
     .name = "INT8",
     .flag = "int8",
     .is_selectable = true,
     .bits = 8,
     .codes = WeightCodes::kSigned,
     .scales = WeightScales::kBFloat16,
     .group = 32,
     .group_bytes = 34,
     .version = 1,
     .head = WeightFormat::kInt8,
     .ungrouped = WeightFormat::kBF16,
     .on_cpu = WeightFormat::kInt8,
     .on_gpu = WeightFormat::kInt8,
     .takes_fp8_activations = false,
     .encode = EncodeInt8,
     .decode = DecodeInt8,
     .read_codes = ReadBytes},
    {.format = WeightFormat::kInt4,
     .name = "INT4",
     .flag = "int4",
     .is_selectable = true,
     .bits = 4,
     .codes = WeightCodes::kPacked,
     .scales = WeightScales::kCoded,
     .group = 32,
     .group_bytes = 18,
     .version = 2,
     .head = WeightFormat::kInt6,
     .ungrouped = WeightFormat::kBF16,
     .on_cpu = WeightFormat::kInt4,
     .on_gpu = WeightFormat::kInt4,
     .takes_fp8_activations = false,
     .encode = EncodeInt4,
     .decode = DecodeInt4,
     .read_codes = ReadInt4},
    {.format = WeightFormat::kFp8,
     .name = "FP8",
     .flag = "fp8",
     .is_selectable = true,
     .bits = 8,
     .codes = WeightCodes::kFp8,
     .scales = WeightScales::kFp8,
     .group = 32,
     .group_bytes = 34,
     .version = 1,
     .head = WeightFormat::kFp8,
     .ungrouped = WeightFormat::kBF16,
     .on_cpu = WeightFormat::kFp8,
     .on_gpu = WeightFormat::kFp8,
     .takes_fp8_activations = true,
     .encode = EncodeFp8,
     .decode = DecodeFp8,
     .read_codes = ReadBytes},
    {.format = WeightFormat::kInt6,
     .name = "INT6",
     .flag = "int6",
     .is_selectable = false,  // the head beside INT4
     .bits = 6,
     .codes = WeightCodes::kPacked,
     .scales = WeightScales::kCoded,
     .group = 32,
     .group_bytes = 26,
     .version = 1,
     .head = WeightFormat::kInt6,
     .ungrouped = WeightFormat::kBF16,
     .on_cpu = WeightFormat::kInt6,
     .on_gpu = WeightFormat::kInt8,
     .takes_fp8_activations = false,
     .encode = EncodeInt6,
     .decode = DecodeInt6,
     .read_codes = ReadInt6},
    {.format = WeightFormat::kInt8G64,
     .name = "INT8_G64",
     .flag = "int8-g64",
     .is_selectable = true,
     .bits = 8,
     .codes = WeightCodes::kSigned,
     .scales = WeightScales::kBFloat16,
     .group = 64,
     .group_bytes = 66,
     .version = 1,
     .head = WeightFormat::kInt8G64,
     .ungrouped = WeightFormat::kBF16,
     .on_cpu = WeightFormat::kInt8,
     .on_gpu = WeightFormat::kInt8,
     .takes_fp8_activations = false,
     .encode = EncodeInt8G64,
     .decode = DecodeInt8G64,
     .read_codes = ReadBytes64},
    {.format = WeightFormat::kInt4Zp,
     .name = "INT4_ZP",
     .flag = "int4-zp",
     .is_selectable = false,  // of files that others quantised
     .bits = 4,
     .codes = WeightCodes::kOffset,
     .scales = WeightScales::kWithZero,
     .group = 32,
     .group_bytes = 20,
     .version = 1,
     .head = WeightFormat::kInt4Zp,
     .ungrouped = WeightFormat::kF32,
     .on_cpu = WeightFormat::kInt4Zp,
     .on_gpu = WeightFormat::kBF16,
     .takes_fp8_activations = false,
     .encode = EncodeInt4Zp,
     .decode = DecodeInt4Zp,
     .read_codes = nullptr},
    {.format = WeightFormat::kInt8Zp,
     .name = "INT8_ZP",
     .flag = "int8-zp",
     .is_selectable = false,  // of files that others quantised
     .bits = 8,
     .codes = WeightCodes::kOffset,
     .scales = WeightScales::kWithZero,
     .group = 32,
     .group_bytes = 36,
     .version = 1,
     .head = WeightFormat::kInt8Zp,
     .ungrouped = WeightFormat::kF32,
     .on_cpu = WeightFormat::kInt8Zp,
     .on_gpu = WeightFormat::kBF16,
     .takes_fp8_activations = false,
     .encode = EncodeInt8Zp,
     .decode = DecodeInt8Zp,
     .read_codes = nullptr},
    {.format = WeightFormat::kInt4ZpG128,
     .name = "INT4_ZP_G128",
     .flag = "int4-zp-g128",
     .is_selectable = false,  // of files that others quantised
     .bits = 4,
     .codes = WeightCodes::kOffset,
     .scales = WeightScales::kWithZero,
     .group = 128,
     .group_bytes = 68,
     .version = 1,
     .head = WeightFormat::kInt4ZpG128,
     .ungrouped = WeightFormat::kInt4Zp,
     .on_cpu = WeightFormat::kInt4ZpG128,
     .on_gpu = WeightFormat::kBF16,
     .takes_fp8_activations = false,
     .encode = EncodeInt4ZpG128,
     .decode = DecodeInt4ZpG128,
     .read_codes = nullptr},
    {.format = WeightFormat::kInt8ZpG128,
     .name = "INT8_ZP_G128",
     .flag = "int8-zp-g128",
     .is_selectable = false,  // of files that others quantised
     .bits = 8,
     .codes = WeightCodes::kOffset,
     .scales = WeightScales::kWithZero,
     .group = 128,
     .group_bytes = 132,
     .version = 1,
     .head = WeightFormat::kInt8ZpG128,
     .ungrouped = WeightFormat::kInt8Zp,
     .on_cpu = WeightFormat::kInt8ZpG128,
     .on_gpu = WeightFormat::kBF16,
     .takes_fp8_activations = false,
     .encode = EncodeInt8ZpG128,
     .decode = DecodeInt8ZpG128,
     .read_codes = nullptr},
    {.format = WeightFormat::kInt4K,
     .name = "INT4_K",
     .flag = "int4-k",
     .is_selectable = false,  // of files that others quantised
     .bits = 4,
     .codes = WeightCodes::kPacked,
     .scales = WeightScales::kTwoLevels,
     .group = 32,
     .group_bytes = 22,
     .version = 1,
     .head = WeightFormat::kInt4K,
     .ungrouped = WeightFormat::kF32,
     .on_cpu = WeightFormat::kInt4K,
     .on_gpu = WeightFormat::kBF16,
     .takes_fp8_activations = false,
     .encode = EncodeInt4K,
     .decode = DecodeInt4K,
     .read_codes = nullptr},
    {.format = WeightFormat::kInt6K,
     .name = "INT6_K",
     .flag = "int6-k",
     .is_selectable = false,  // of files that others quantised
     .bits = 6,
     .codes = WeightCodes::kPacked,
     .scales = WeightScales::kTwoLevels,
     .group = 32,
     .group_bytes = 31,
     .version = 1,
     .head = WeightFormat::kInt6K,
     .ungrouped = WeightFormat::kF32,
     .on_cpu = WeightFormat::kInt6K,
     .on_gpu = WeightFormat::kBF16,
     .takes_fp8_activations = false,
     .encode = EncodeInt6K,
     .decode = DecodeInt6K,
     .read_codes = nullptr},
    {.format = WeightFormat::kInt4KG128,
     .name = "INT4_K_G128",
     .flag = "int4-k-g128",
     .is_selectable = false,  // of files that others quantised
     .bits = 4,
     .codes = WeightCodes::kPacked,
     .scales = WeightScales::kTwoLevels,
     .group = 128,
     .group_bytes = 76,
     .version = 1,
     .head = WeightFormat::kInt4KG128,
     .ungrouped = WeightFormat::kInt4K,
     .on_cpu = WeightFormat::kInt4KG128,
     .on_gpu = WeightFormat::kBF16,
     .takes_fp8_activations = false,
     .encode = EncodeInt4KG128,
     .decode = DecodeInt4KG128,
     .read_codes = nullptr},
    {.format = WeightFormat::kInt6KG128,
     .name = "INT6_K_G128",
     .flag = "int6-k-g128",
     .is_selectable = false,  // of files that others quantised
     .bits = 6,
     .codes = WeightCodes::kPacked,
     .scales = WeightScales::kTwoLevels,
     .group = 128,
     .group_bytes = 112,
     .version = 1,
     .head = WeightFormat::kInt6KG128,
     .ungrouped = WeightFormat::kInt6K,
     .on_cpu = WeightFormat::kInt6KG128,
     .on_gpu = WeightFormat::kBF16,
     .takes_fp8_activations = false,
     .encode = EncodeInt6KG128,
     .decode = DecodeInt6KG128,
     .read_codes = nullptr},
    {.format = WeightFormat::kMxFp4,
     .name = "MXFP4",
     .flag = "mxfp4",
     .is_selectable = false,  // of files that others quantised
     .bits = 4,
     .codes = WeightCodes::kFp4,
     .scales = WeightScales::kPowers,
     .group = 32,
     .group_bytes = 17,
     .version = 1,
     .head = WeightFormat::kMxFp4,
     .ungrouped = WeightFormat::kF32,
     .on_cpu = WeightFormat::kMxFp4,
     .on_gpu = WeightFormat::kBF16,
     .takes_fp8_activations = false,
     .encode = EncodeMxFp4,
     .decode = DecodeMxFp4,
     .read_codes = nullptr},
};
inline constexpr int kNumWeightFormats = static_cast<int>(std::size(kWeightFormats));

constexpr int IndexOf(WeightFormat format) { return static_cast<int>(format); }
constexpr const WeightFormatTraits& TraitsOf(WeightFormat format) {
  return kWeightFormats[IndexOf(format)];
}
static_assert(std::ranges::all_of(kWeightFormats, [](const WeightFormatTraits& traits) {
  return &TraitsOf(traits.format) == &traits;
}));

// Inputs that share a scale in the quantised formats that kernels multiply, but for those of files of
// others, whose groups are multiples of it.
inline constexpr int64_t kWeightGroup = 32;
static_assert(std::ranges::all_of(kWeightFormats, [](const WeightFormatTraits& traits) {
  const bool is_native = traits.on_cpu == traits.format || traits.on_gpu == traits.format;
  return !is_native || traits.group == 1 || traits.group == kWeightGroup ||
         ((traits.scales == WeightScales::kWithZero || traits.scales == WeightScales::kTwoLevels) &&
          traits.group % kWeightGroup == 0);
}));

// Inputs of the largest groups.
inline constexpr int64_t kMostGroup =
    std::ranges::max(kWeightFormats, {}, &WeightFormatTraits::group).group;

constexpr bool IsQuantized(WeightFormat format) {
  return TraitsOf(format).codes != WeightCodes::kElements;
}

// Whether groups have a zero point besides their scale.
constexpr bool HasZeroPoints(WeightFormat format) {
  return TraitsOf(format).codes == WeightCodes::kOffset;
}

constexpr bool HasTwoLevelScales(WeightFormat format) {
  return TraitsOf(format).scales == WeightScales::kTwoLevels;
}

// Whether it is a format of files of others alone: --weights does not select it, and GPUs keep it as
// BF16.
constexpr bool IsPublished(WeightFormat format) {
  return HasZeroPoints(format) || HasTwoLevelScales(format) ||
         TraitsOf(format).codes == WeightCodes::kFp4;
}

// Bytes of a row of `num_inputs` weights, a multiple of the format's group.
constexpr size_t RowBytes(WeightFormat format, int64_t num_inputs) {
  const WeightFormatTraits& traits = TraitsOf(format);
  return static_cast<size_t>(num_inputs / traits.group * traits.group_bytes);
}

// Such as "F32" or "INT8_G64".
constexpr std::string_view Name(WeightFormat format) { return TraitsOf(format).name; }

// Writes `row` in `format`. BF16 rounds to nearest even. INT8 takes the scale that holds the largest
// weight of a group; INT6 and INT4, of 16 scales near that, the one with the least squared error; FP8
// that of Fp8ScaleFor; MXFP4 that of its specification; other formats of files of others scales that
// span a group's weights. The bits are the same on every machine. Weights that no scale holds become
// the largest that one does, those that are not finite make their whole group not a number. REQUIRES:
// out.size() == RowBytes(format, row.size()); row.size() is a multiple of the format's group.
void EncodeRow(WeightFormat format, absl::Span<const float> row, absl::Span<std::byte> out);

// The numbers q of a group that begins at `group`; of FP8 their codes.
// REQUIRES: `format` is quantised, and not IsPublished; quotients has as many elements as its groups.
void ReadQuotients(WeightFormat format, const std::byte* group, int8_t* quotients);

// Groups of `from` as groups of `to` with the same scales and numbers.
// REQUIRES: both are quantised, `to` with a byte for each number, and its groups divide those of
// `from`; `groups` is whole groups, and `out` as large as `to` has them.
void RegroupRows(WeightFormat from, absl::Span<const std::byte> groups, WeightFormat to,
                 absl::Span<std::byte> out);

// Rows of `num_inputs` weights from one format to another, by way of their numbers.
void RecodeRows(WeightFormat from, absl::Span<const std::byte> rows, WeightFormat to,
                int64_t num_inputs, absl::Span<std::byte> out);

// The exact weights of a row that EncodeRow wrote, or that a file holds.
// REQUIRES: bytes.size() == RowBytes(format, row.size()).
void DecodeRow(WeightFormat format, absl::Span<const std::byte> bytes, absl::Span<float> row);

}  // namespace sluice
