// How quantised weights are packed, and become the stream of bfloat16 pairs. A slice of a panel is the
// scales of its groups of 32 inputs (one for four of them in formats with groups of 128), filled up to whole lines of 64 bytes, so that they
// are fetched before the groups themselves, which are chunks of lines:
//
//   INT8  a chunk of one line unpacks into two vectors of the stream. A byte is the sign and seven
//         bits of magnitude, which index tables of the low and high bytes of bfloat16 numbers. In
//         each 16 bytes of a line the first 8 belong to the first vector, the others to the second
//   FP8   the same, with codes in place of sign and magnitude
//   INT4  a chunk of one line unpacks into four vectors. Half-byte j of each 16 bits of a line
//         belongs to vector j and is n = q + 8; below the exponent of 1/2 it makes the bfloat16
//         (128 + n) / 256, so sums start at -136 / 256 times the sum of the activations
//   INT6  a chunk of three lines unpacks into eight vectors. The lower four bits of q + 32 lie in two
//         lines, as in INT4, the upper two in the third: bits 4 and 5 of each 16 are those of
//         vector 0, the next two those of vector 1, and so on around
//   INT8_ZP as INT8, with the numbers from 0 to 255 themselves, which are bfloat16 numbers
//   INT4_ZP as INT4, with the numbers from 0 to 15; below the exponent of 128 they make 128 + q
//   INT4_K, INT6_K  as INT4_ZP and INT6
//   MXFP4 as INT4, with codes that index a table of bfloat16 numbers
//
//   scales of 16 outputs: BF16 in INT8 and FP8; in INT6 and INT4 the codes of kernels/group_scale.h
//         and then a bit each for their signs. Such a code is the upper half of an F16 number that is
//         256 times the scale, which the numbers above make up for. Of formats with zero points the
//         words of kernels/affine_word.h: sums start at what weights are too large by, times minus
//         the sum of the activations. Of formats with scales of two levels (two_level_scales.h) 16
//         numbers d, 16 e, and for each group 16 bytes of each of its s, and of its m. Of MXFP4 the
//         exponents, a byte each.
//
// Belongs to the files that include it, as gemm_avx512-inl.h does.
#pragma once

#include <bit>

#include "kernels/affine_word.h"
#include "kernels/cpu/gemm_avx512-inl.h"
#include "kernels/cpu/gemm_byte_tables-inl.h"
#include "kernels/fp4.h"
#include "kernels/group_scale.h"
#include "kernels/two_level_scales.h"

namespace sluice {
namespace {

// How far ahead one tile asks for weights: into the second-level cache, which has room for more
// requests, and from there into the first. The processor itself foresees that they are read one
// after the other, but too late: few bytes hold many weights, and are done with soon.
constexpr int64_t kFarBytes = 8192, kNearBytes = 2048;

template <_mm_hint kHint>
void Fetch(const std::byte* from, int64_t lines) {
  for (int64_t i = 0; i < lines; ++i) _mm_prefetch(from + i * 64, kHint);
}

// Scales of kLanes outputs.
struct BFloat16Scales {
  static constexpr int64_t kBytes = kLanes * 2;

  static __m512 Load(const std::byte* from) {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
  }
  static void Put(uint16_t bfloat16, int64_t lane, std::byte* to) {
    At<uint16_t>(to)[lane] = bfloat16;
  }
};

struct CodedScales {
  static constexpr int64_t kBytes = kLanes + kLanes / 8;

  // 256 times each.
  static __m512 Load(const std::byte* from) {
    const __m128i codes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    const __m256i magnitudes = _mm256_slli_epi16(_mm256_cvtepu8_epi16(codes), 7);
    const __mmask16 signs = *reinterpret_cast<const __mmask16*>(from + kLanes);
    const __m256i sign = _mm256_set1_epi16(static_cast<int16_t>(0x8000));
    return _mm512_cvtph_ps(_mm256_mask_add_epi16(magnitudes, signs, magnitudes, sign));
  }
  static void Put(uint16_t bfloat16, int64_t lane, std::byte* to) {
    to[lane] = static_cast<std::byte>(kGroupScaleCodes.of[(bfloat16 & 0x7fff) >> 4]);
    if (bfloat16 >> 15 != 0) to[kLanes + lane / 8] |= static_cast<std::byte>(1 << lane % 8);
  }
};

// With zero points.
struct AffineScales {
  static constexpr int64_t kBytes = kLanes * 4;

  static __m512 Load(const std::byte* from) {
    const __m512i words = _mm512_loadu_si512(from);
    return _mm512_castsi512_ps(_mm512_and_si512(words, _mm512_set1_epi32(~0xff)));
  }
  static __m512 Zeros(const std::byte* from) {
    const __m512i words = _mm512_loadu_si512(from);
    return _mm512_cvtepi32_ps(_mm512_and_si512(words, _mm512_set1_epi32(0xff)));
  }
  static void Put(uint32_t word, int64_t lane, std::byte* to) { At<uint32_t>(to)[lane] = word; }
};

// Of two levels, by the group of 32 among those that share d and e.
template <WeightFormat kFormat>
struct PanelTwoLevelScales {
  using Layout = TwoLevelLayout<kFormat>;
  static constexpr int64_t kLevelBytes = kLanes * 2;
  static constexpr int64_t kBytes = 2 * kLevelBytes + Layout::kParts * Layout::kPartBytes * kLanes;

  static __m512 Level(const std::byte* from) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
  }
  static const std::byte* BytesAt(const std::byte* from, int64_t part, int64_t index) {
    return from + 2 * kLevelBytes + (part * Layout::kPartBytes + index) * kLanes;
  }
  static __m128i Bytes(const std::byte* from) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  }
  // Of run `run` of a group.
  static __m512 Load(const std::byte* from, int64_t part, int64_t run) {
    const __m512i s = _mm512_cvtepi8_epi32(Bytes(BytesAt(from, part, run)));
    return _mm512_mul_ps(Level(from), _mm512_cvtepi32_ps(s));
  }
  static __m512 Minimums(const std::byte* from, int64_t part) {
    const __m512i m = _mm512_cvtepu8_epi32(Bytes(BytesAt(from, part, Layout::kRunsOfPart)));
    return _mm512_mul_ps(Level(from + kLevelBytes), _mm512_cvtepi32_ps(m));
  }
  // `header`: the scales of a group of one output, as rows have them.
  static void Put(const std::byte* header, int64_t part, int64_t lane, std::byte* to) {
    for (int64_t i = 0; i < 2; ++i) {
      to[lane * 2 + i] = header[i];
      to[kLevelBytes + lane * 2 + i] = header[2 + i];
    }
    for (int64_t i = 0; i < Layout::kPartBytes; ++i) {
      to[2 * kLevelBytes + (part * Layout::kPartBytes + i) * kLanes + lane] =
          header[4 + part * Layout::kPartBytes + i];
    }
  }
};

// Powers of two by their exponents.
struct ExponentScales {
  static constexpr int64_t kBytes = kLanes;

  static __m512 Load(const std::byte* from) {
    const __m128i codes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    // The least has no exponent of its own, and the last stands for no number.
    const __m128i next = _mm_add_epi8(codes, _mm_set1_epi8(1));
    const __mmask16 ends = _mm_cmple_epu8_mask(next, _mm_set1_epi8(1));
    const __m512i powers = _mm512_slli_epi32(_mm512_cvtepu8_epi32(codes), 23);
    return _mm512_castsi512_ps(
        _mm512_mask_or_epi32(powers, ends, powers, _mm512_set1_epi32(0x00400000)));
  }
  static void Put(const std::byte* header, int64_t /*part*/, int64_t lane, std::byte* to) {
    to[lane] = *header;
  }
};

constexpr int kMaskedOr = 0xEA;  // (a & b) | c

// Unpacks INT8 chunks.
struct Int8 {
  using Scales = BFloat16Scales;
  static constexpr WeightFormat kFormat = WeightFormat::kInt8;
  static constexpr int64_t kScaleGroups = 1;  // that share a scale
  static constexpr int kVectorsOfChunk = 2;
  static constexpr int kLinesOfChunk = 1;
  static constexpr float kExcess = 0;

  explicit Int8(const ByteTables& bytes = kInt8Tables)
      : low0(_mm512_load_si512(bytes.low)),
        low1(_mm512_load_si512(bytes.low + 64)),
        high0(_mm512_load_si512(bytes.high)),
        high1(_mm512_load_si512(bytes.high + 64)) {}

  void Unpack(const std::byte* chunk, __m512i* vectors) const {
    const __m512i bytes = _mm512_loadu_si512(chunk);
    const __m512i low = _mm512_permutex2var_epi8(low0, bytes, low1);
    const __m512i high = _mm512_ternarylogic_epi64(
        bytes, sign, _mm512_permutex2var_epi8(high0, bytes, high1), kMaskedOr);
    vectors[0] = _mm512_unpacklo_epi8(low, high);
    vectors[1] = _mm512_unpackhi_epi8(low, high);
  }

  // Weight q as word `word` (2 * output + input, of 16 outputs and 2 inputs) of vector `vector`.
  static void Put(int q, int64_t vector, int64_t word, std::byte* chunk) {
    chunk[word / 8 * 16 + vector * 8 + word % 8] = static_cast<std::byte>(q < 0 ? 0x80 | -q : q);
  }

  const __m512i low0, low1, high0, high1;
  const __m512i sign = _mm512_set1_epi8(static_cast<char>(0x80));
};

// Unpacks FP8 chunks.
struct Fp8 : Int8 {
  static constexpr WeightFormat kFormat = WeightFormat::kFp8;

  Fp8() : Int8(kFp8Tables) {}

  static void Put(int code, int64_t vector, int64_t word, std::byte* chunk) {
    chunk[word / 8 * 16 + vector * 8 + word % 8] = static_cast<std::byte>(code);
  }
};

// Unpacks INT4 chunks. `Numbers` makes those of a vector of its bits.
template <class Numbers>
struct Int4Chunks : Numbers {
  using Scales = CodedScales;
  static constexpr WeightFormat kFormat = WeightFormat::kInt4;
  static constexpr int64_t kScaleGroups = 1;
  static constexpr int kVectorsOfChunk = 4;
  static constexpr int kLinesOfChunk = 1;
  static constexpr float kExcess = 136.0f / 256;

  void Unpack(const std::byte* chunk, __m512i* vectors) const {
    const __m512i bits = _mm512_loadu_si512(chunk);
    vectors[0] = this->Of(bits);
    vectors[1] = this->Of(_mm512_srli_epi16(bits, 4));
    vectors[2] = this->Of(_mm512_srli_epi16(bits, 8));
    vectors[3] = this->Of(_mm512_srli_epi16(bits, 12));
  }

  static void Put(int q, int64_t vector, int64_t word, std::byte* chunk) {
    chunk[word * 2 + vector / 2] |= static_cast<std::byte>((q + 8) << (vector % 2 * 4));
  }
};

struct ExcessiveInt4 {
  __m512i Of(__m512i bits) const {
    return _mm512_ternarylogic_epi64(bits, mask, exponent, kMaskedOr);
  }

  const __m512i mask = _mm512_set1_epi16(0x000f);
  const __m512i exponent = _mm512_set1_epi16(0x3f00);
};
using Int4 = Int4Chunks<ExcessiveInt4>;

// Unpacks INT6 chunks. `Numbers` makes those of a vector of its bits in both kinds of lines.
template <class Numbers>
struct Int6Chunks : Numbers {
  using Scales = CodedScales;
  static constexpr WeightFormat kFormat = WeightFormat::kInt6;
  static constexpr int64_t kScaleGroups = 1;
  static constexpr int kVectorsOfChunk = 8;
  static constexpr int kLinesOfChunk = 3;
  static constexpr float kExcess = 160.0f / 256;

  void Unpack(const std::byte* chunk, __m512i* vectors) const {
    const __m512i low0 = _mm512_loadu_si512(chunk), low1 = _mm512_loadu_si512(chunk + 64);
    const __m512i high = _mm512_loadu_si512(chunk + 128);
    vectors[0] = this->Of(low0, high);
    vectors[1] = this->Of(_mm512_srli_epi16(low0, 4), _mm512_srli_epi16(high, 2));
    vectors[2] = this->Of(_mm512_srli_epi16(low0, 8), _mm512_srli_epi16(high, 4));
    vectors[3] = this->Of(_mm512_srli_epi16(low0, 12), _mm512_srli_epi16(high, 6));
    vectors[4] = this->Of(low1, _mm512_srli_epi16(high, 8));
    vectors[5] = this->Of(_mm512_srli_epi16(low1, 4), _mm512_srli_epi16(high, 10));
    vectors[6] = this->Of(_mm512_srli_epi16(low1, 8), _mm512_slli_epi16(high, 4));
    vectors[7] = this->Of(_mm512_srli_epi16(low1, 12), _mm512_slli_epi16(high, 2));
  }

  static void Put(int q, int64_t vector, int64_t word, std::byte* chunk) {
    const int number = q + 32;
    chunk[vector / 4 * 64 + word * 2 + vector % 4 / 2] |=
        static_cast<std::byte>((number & 15) << (vector % 2 * 4));
    const int64_t bit = (vector * 2 + 4) % 16;
    chunk[128 + word * 2 + bit / 8] |= static_cast<std::byte>(number >> 4 << (bit % 8));
  }
};

struct ExcessiveInt6 {
  __m512i Of(__m512i low, __m512i high) const {
    return _mm512_ternarylogic_epi64(
        low, low_mask, _mm512_ternarylogic_epi64(high, high_mask, exponent, kMaskedOr), kMaskedOr);
  }

  const __m512i low_mask = _mm512_set1_epi16(0x000f);
  const __m512i high_mask = _mm512_set1_epi16(0x0030);
  const __m512i exponent = _mm512_set1_epi16(0x3f00);
};
using Int6 = Int6Chunks<ExcessiveInt6>;

// ---- Zero points ----

// Unpacks chunks of INT8_ZP and INT8_ZP_G128. Numbers below 128 are those of INT8; above, a
// bfloat16 of the exponent of 128 has the other seven bits as they are.
template <WeightFormat kOfFormat>
struct Int8Zp : Int8 {
  using Scales = AffineScales;
  static constexpr WeightFormat kFormat = kOfFormat;
  static constexpr int64_t kScaleGroups = TraitsOf(kOfFormat).group / kWeightGroup;
  static constexpr float kExcess = 1;  // times the zero point

  static __m512 ExcessOf(const std::byte* scales) { return Scales::Zeros(scales); }

  void Unpack(const std::byte* chunk, __m512i* vectors) const {
    const __m512i bytes = _mm512_loadu_si512(chunk);
    const __mmask64 above = _mm512_movepi8_mask(bytes);
    const __m512i low = _mm512_mask_blend_epi8(above, _mm512_permutex2var_epi8(low0, bytes, low1),
                                               _mm512_andnot_si512(sign, bytes));
    const __m512i high = _mm512_mask_blend_epi8(
        above, _mm512_permutex2var_epi8(high0, bytes, high1), _mm512_set1_epi8(0x43));
    vectors[0] = _mm512_unpacklo_epi8(low, high);
    vectors[1] = _mm512_unpackhi_epi8(low, high);
  }

  static void Put(int q, int64_t vector, int64_t word, std::byte* chunk) {
    chunk[word / 8 * 16 + vector * 8 + word % 8] = static_cast<std::byte>(q);
  }
};

// Unpacks chunks of INT4_ZP and INT4_ZP_G128.
struct ExcessiveInt4Zp {
  __m512i Of(__m512i bits) const {
    return _mm512_ternarylogic_epi64(bits, mask, exponent, kMaskedOr);
  }

  const __m512i mask = _mm512_set1_epi16(0x000f);
  const __m512i exponent = _mm512_set1_epi16(0x4300);
};
template <WeightFormat kOfFormat>
struct Int4Zp : Int4Chunks<ExcessiveInt4Zp> {
  using Scales = AffineScales;
  static constexpr WeightFormat kFormat = kOfFormat;
  static constexpr int64_t kScaleGroups = TraitsOf(kOfFormat).group / kWeightGroup;
  static constexpr float kExcess = 1;  // times 128 and the zero point

  static __m512 ExcessOf(const std::byte* scales) {
    return _mm512_add_ps(Scales::Zeros(scales), _mm512_set1_ps(128));
  }

  static void Put(int q, int64_t vector, int64_t word, std::byte* chunk) {
    chunk[word * 2 + vector / 2] |= static_cast<std::byte>(q << (vector % 2 * 4));
  }
};

// ---- Numbers without an excess ----

// 32 numbers / 256: `count` from `first` on, none of them above 32 in magnitude, again and again.
struct WordTable {
  alignas(64) uint16_t words[32];
};
constexpr WordTable TableFrom(int first, int count) {
  WordTable table{};
  for (int i = 0; i < 32; ++i) {
    const int q = first + i % count, magnitude = q < 0 ? -q : q;
    if (q == 0) continue;
    int exponent = 0;
    while (magnitude >> (exponent + 1) != 0) ++exponent;
    table.words[i] = static_cast<uint16_t>((q < 0 ? 0x8000 : 0) | (127 + exponent - 8) << 7 |
                                           (magnitude << (7 - exponent) & 127));
  }
  return table;
}
constexpr WordTable kInt4Words = TableFrom(-8, 16);  // five bits of an index count
constexpr WordTable kNegativeWords = TableFrom(-32, 32), kPositiveWords = TableFrom(0, 32);

struct SignedInt4 {
  __m512i Of(__m512i bits) const { return _mm512_permutexvar_epi16(bits, numbers); }

  const __m512i numbers = _mm512_load_si512(kInt4Words.words);
};
using Int4Numbers = Int4Chunks<SignedInt4>;

struct SignedInt6 {
  __m512i Of(__m512i low, __m512i high) const {
    constexpr int kChoose = 0xCA;  // a ? b : c; six bits of an index count
    const __m512i index = _mm512_ternarylogic_epi64(low_mask, low, high, kChoose);
    return _mm512_permutex2var_epi16(negative, index, positive);
  }

  const __m512i low_mask = _mm512_set1_epi16(0x000f);
  const __m512i negative = _mm512_load_si512(kNegativeWords.words);
  const __m512i positive = _mm512_load_si512(kPositiveWords.words);
};
using Int6Numbers = Int6Chunks<SignedInt6>;

// ---- Four-bit floats ----

constexpr WordTable kFp4Words = [] {
  WordTable table{};
  for (int i = 0; i < 32; ++i) {  // five bits of an index count
    table.words[i] = static_cast<uint16_t>(std::bit_cast<uint32_t>(kFp4Numbers[i % 16]) >> 16);
  }
  return table;
}();

struct Fp4Words {
  __m512i Of(__m512i bits) const { return _mm512_permutexvar_epi16(bits, numbers); }

  const __m512i numbers = _mm512_load_si512(kFp4Words.words);
};

// Unpacks chunks of MXFP4.
struct MxFp4 : Int4Chunks<Fp4Words> {
  using Scales = ExponentScales;
  static constexpr WeightFormat kFormat = WeightFormat::kMxFp4;
  static constexpr float kExcess = 0;

  static void Put(int code, int64_t vector, int64_t word, std::byte* chunk) {
    chunk[word * 2 + vector / 2] |= static_cast<std::byte>(code << (vector % 2 * 4));
  }
};

// ---- Scales of two levels ----

template <WeightFormat kOfFormat>
struct Int4K : Int4Chunks<ExcessiveInt4Zp> {
  using Scales = PanelTwoLevelScales<kOfFormat>;
  static constexpr WeightFormat kFormat = kOfFormat;
  static constexpr int64_t kScaleGroups = Scales::Layout::kParts;
  static constexpr float kExcess = 1;  // times 128; and for the minimums
  static constexpr float kScale = 1;   // what scales are multiplied with

  static __m512 ExcessOf(const std::byte* /*scales*/) { return _mm512_set1_ps(128); }

  static void Put(int q, int64_t vector, int64_t word, std::byte* chunk) {
    chunk[word * 2 + vector / 2] |= static_cast<std::byte>(q << (vector % 2 * 4));
  }
};

template <WeightFormat kOfFormat>
struct Int6K : Int6Chunks<SignedInt6> {
  using Scales = PanelTwoLevelScales<kOfFormat>;
  static constexpr WeightFormat kFormat = kOfFormat;
  static constexpr int64_t kScaleGroups = Scales::Layout::kParts;
  static constexpr float kExcess = 1;  // for the minimums
  static constexpr float kScale = 256;

  static __m512 ExcessOf(const std::byte* /*scales*/) { return _mm512_setzero_ps(); }
};

// The codes of the formats that are packed so, but for those of files of others: calls function.operator()<Code, Numbers>() with that
// of `format`, and with its counterpart without an excess.
template <class Function>
decltype(auto) WithCode(WeightFormat format, const Function& function) {
  switch (format) {
    case WeightFormat::kInt6:
      return function.template operator()<Int6, Int6Numbers>();
    case WeightFormat::kInt4:
      return function.template operator()<Int4, Int4Numbers>();
    case WeightFormat::kFp8:
      return function.template operator()<Fp8, Fp8>();
    default:
      return function.template operator()<Int8, Int8>();
  }
}

// Calls function.operator()<Code>() with the code of a format that IsPublished.
template <class Function>
decltype(auto) WithPublishedCode(WeightFormat format, const Function& function) {
  switch (format) {
    case WeightFormat::kInt4Zp:
      return function.template operator()<Int4Zp<WeightFormat::kInt4Zp>>();
    case WeightFormat::kInt4ZpG128:
      return function.template operator()<Int4Zp<WeightFormat::kInt4ZpG128>>();
    case WeightFormat::kInt8Zp:
      return function.template operator()<Int8Zp<WeightFormat::kInt8Zp>>();
    case WeightFormat::kInt4K:
      return function.template operator()<Int4K<WeightFormat::kInt4K>>();
    case WeightFormat::kInt4KG128:
      return function.template operator()<Int4K<WeightFormat::kInt4KG128>>();
    case WeightFormat::kInt6K:
      return function.template operator()<Int6K<WeightFormat::kInt6K>>();
    case WeightFormat::kInt6KG128:
      return function.template operator()<Int6K<WeightFormat::kInt6KG128>>();
    case WeightFormat::kMxFp4:
      return function.template operator()<MxFp4>();
    default:
      return function.template operator()<Int8Zp<WeightFormat::kInt8ZpG128>>();
  }
}

// Bytes of a group of a panel, and of its scales.
template <class Code, int kVectors>
constexpr int64_t kGroupBytes =
    kVectors* kGroupPairs / Code::kVectorsOfChunk* Code::kLinesOfChunk * 64;
template <class Code, int kVectors>
constexpr int64_t kScalesBytes = kVectors* Code::Scales::kBytes;

// Those of group `group`, counted from one that is the first with its scales.
template <class Code, int kVectors>
const std::byte* ScalesAt(const std::byte* scales, int64_t group) {
  return scales + group / Code::kScaleGroups * kScalesBytes<Code, kVectors>;
}

}  // namespace
}  // namespace sluice
