#include "services/model/gguf_matrix.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/affine_word.h"
#include "kernels/check.h"
#include "kernels/dtype.h"
#include "kernels/fp4.h"
#include "services/model/gguf/gguf_blocks.h"
#include "services/model/published/fp4.h"

namespace sluice {
namespace {

constexpr int64_t kBlock = 32;  // weights of the blocks that are groups of other formats
static_assert(kBlock == kWeightGroup);

// A block as a group: a weight is scale * (number - zero).
struct AffineBlock {
  float scale = 0;
  uint32_t zero = 0;
  std::array<uint8_t, kBlock> numbers{};
};

uint8_t ByteAt(const std::byte* at) { return std::to_integer<uint8_t>(*at); }

float HalfAt(const std::byte* at) {
  uint16_t bits;
  std::memcpy(&bits, at, sizeof(bits));
  return FloatFromHalf(bits);
}

AffineBlock FromQ4_0(const std::byte* block) {
  AffineBlock found{.scale = HalfAt(block), .zero = 8};
  for (int64_t j = 0; j < kBlock / 2; ++j) {
    found.numbers[j] = ByteAt(block + 2 + j) & 15;
    found.numbers[j + kBlock / 2] = ByteAt(block + 2 + j) >> 4;
  }
  return found;
}

// The fifth bit of weight j is bit j of four bytes.
AffineBlock FromQ5_0(const std::byte* block) {
  AffineBlock found = FromQ4_0(block + 4);
  found.scale = HalfAt(block);
  found.zero = 16;
  for (int64_t j = 0; j < kBlock; ++j) {
    found.numbers[j] |= static_cast<uint8_t>((ByteAt(block + 2 + j / 8) >> (j % 8) & 1) << 4);
  }
  return found;
}

AffineBlock FromQ8_0(const std::byte* block) {
  AffineBlock found{.scale = HalfAt(block), .zero = 128};
  for (int64_t j = 0; j < kBlock; ++j) found.numbers[j] = ByteAt(block + 2 + j) ^ 0x80;
  return found;
}

constexpr std::string_view kMxFp4Name = "MXFP4";

// A block as a group of MXFP4: the lower halves of its bytes come before the upper ones.
void WriteFp4Group(const std::byte* block, std::byte* out) {
  *out++ = *block++;
  for (const int shift : {0, 4}) {
    for (int64_t j = 0; j < kBlock / 2; j += 2) {
      *out++ = static_cast<std::byte>((ByteAt(block + j) >> shift & 15) |
                                      (ByteAt(block + j + 1) >> shift & 15) << 4);
    }
  }
}

struct AffineType {
  std::string_view name;
  int bits;  // of a number
  AffineBlock (*read)(const std::byte* block);
};
constexpr AffineType kAffineTypes[] = {
    {"Q4_0", 4, FromQ4_0}, {"Q5_0", 5, FromQ5_0}, {"Q8_0", 8, FromQ8_0}};

const AffineType* FindAffineType(std::string_view name) {
  const auto* found = std::find_if(std::begin(kAffineTypes), std::end(kAffineTypes),
                                   [&](const AffineType& type) { return type.name == name; });
  return found == std::end(kAffineTypes) ? nullptr : found;
}

void WriteGroup(const AffineBlock& block, const WeightFormatTraits& as, std::byte* out) {
  const uint32_t word = AffineWord(block.scale, block.zero);
  std::memcpy(out, &word, sizeof(word));
  out += sizeof(word);
  if (as.bits == 8) {
    std::memcpy(out, block.numbers.data(), kBlock);
    return;
  }
  for (int64_t k = 0; k < kBlock; k += 2) {
    *out++ = static_cast<std::byte>(block.numbers[k] | block.numbers[k + 1] << 4);
  }
}

// Blocks that formats with scales of two levels hold.
struct TwoLevelType {
  std::string_view name;
  int bits;  // of a number; 4 where none is below zero
  ReadTwoLevelPart* read;
};
constexpr TwoLevelType kTwoLevelTypes[] = {
    {"Q4_1", 4, ReadQ4_1}, {"Q5_0", 6, ReadQ5_0}, {"Q5_1", 6, ReadQ5_1}, {"Q3_K", 6, ReadQ3K},
    {"Q4_K", 4, ReadQ4K},  {"Q5_K", 6, ReadQ5K},  {"Q6_K", 6, ReadQ6K}};

const TwoLevelType* FindTwoLevelType(std::string_view name) {
  const auto* found = std::find_if(std::begin(kTwoLevelTypes), std::end(kTwoLevelTypes),
                                   [&](const TwoLevelType& type) { return type.name == name; });
  return found == std::end(kTwoLevelTypes) ? nullptr : found;
}

void WriteNumbers4(const int8_t* numbers, std::byte* to) {
  for (int64_t k = 0; k < kBlock; k += 2) {
    *to++ = static_cast<std::byte>(numbers[k] | numbers[k + 1] << 4);
  }
}

// As rows of INT6 have them.
void WriteNumbers6(const int8_t* numbers, std::byte* to) {
  for (int64_t k = 0; k < kBlock; k += 4) {
    int above[4];  // from 0 on
    for (int64_t i = 0; i < 4; ++i) above[i] = numbers[k + i] + 32;
    *to++ = static_cast<std::byte>((above[0] & 15) | (above[1] & 15) << 4);
    *to++ = static_cast<std::byte>((above[2] & 15) | (above[3] & 15) << 4);
    *to++ = static_cast<std::byte>(above[0] >> 4 | above[1] >> 4 << 2 | above[2] >> 4 << 4 |
                                   above[3] >> 4 << 6);
  }
}

// Parts of 32 weights that share d and e, as a group of `as`.
void WriteTwoLevelGroup(absl::Span<const TwoLevelPart> parts, const WeightFormatTraits& as,
                        std::byte* out) {
  std::memcpy(out, &parts[0].d, sizeof(uint16_t));
  std::memcpy(out + 2, &parts[0].e, sizeof(uint16_t));
  out += 4;
  for (const TwoLevelPart& part : parts) {
    *out++ = static_cast<std::byte>(part.scales[0]);
    if (as.bits == 6) *out++ = static_cast<std::byte>(part.scales[1]);
    *out++ = std::byte{part.minimum};
  }
  for (const TwoLevelPart& part : parts) {
    as.bits == 4 ? WriteNumbers4(part.numbers, out) : WriteNumbers6(part.numbers, out);
    out += kBlock * as.bits / 8;
  }
}

class GgufMatrix final : public PublishedMatrix {
 public:
  GgufMatrix(PackedTensor tensor, const StoredType& type, int64_t columns)
      : PublishedMatrix({std::move(tensor)}),
        type_(type),
        affine_(FindAffineType(type.name)),
        two_level_(FindTwoLevelType(type.name)),
        row_bytes_(static_cast<int64_t>(type.BytesOf(static_cast<uint64_t>(columns)))) {}

  absl::Status Read(const MatrixPart& part, absl::Span<float> out) const override;
  absl::Status ReadRows(const MatrixPart& part, WeightFormat format,
                        absl::Span<std::byte> out) const override;
  bool IsReadableAs(WeightFormat format) const override {
    const WeightFormatTraits& traits = TraitsOf(format);
    if (format == WeightFormat::kMxFp4) return type_.name == kMxFp4Name;
    if (HasTwoLevelScales(format)) {
      return two_level_ != nullptr && two_level_->bits <= traits.bits &&
             type_.block % traits.group == 0;
    }
    return affine_ != nullptr && HasZeroPoints(format) && traits.group == kBlock &&
           affine_->bits <= traits.bits;
  }
  std::vector<absl::Span<const std::byte>> BytesOf(const MatrixPart& part) const override {
    return {tensors()[0].bytes.subspan(part.first_row * row_bytes_, part.rows * row_bytes_)};
  }

 private:
  absl::Status ReadTwoLevelRow(int64_t row, const MatrixPart& part, const WeightFormatTraits& as,
                               std::byte* to) const;
  absl::Status ScaleError() const {
    return tensors()[0].Error("has a scale that is not finite; accepted: numbers");
  }
  const std::byte* BlocksOf(int64_t row, int64_t block) const {
    return tensors()[0].bytes.data() + row * row_bytes_ + block * type_.size;
  }

  const StoredType type_;
  const AffineType* const affine_;       // null: no format with zero points holds its blocks
  const TwoLevelType* const two_level_;  // null: none with scales of two levels
  const int64_t row_bytes_;
};

// A part may begin and end within blocks.
absl::Status GgufMatrix::Read(const MatrixPart& part, absl::Span<float> out) const {
  SLUICE_CHECK(part.row_step == 1);
  const int64_t first = part.first_column / type_.block;
  const int64_t last = (part.first_column + part.columns + type_.block - 1) / type_.block;
  const bool is_whole = part.columns == (last - first) * type_.block;
  std::vector<float> decoded(is_whole ? 0 : (last - first) * type_.block);
  float* to = out.data();
  for (int64_t row = part.first_row; row < part.first_row + part.rows; ++row) {
    type_.decode(BlocksOf(row, first), last - first, is_whole ? to : decoded.data());
    if (!is_whole) {
      std::copy_n(decoded.begin() + (part.first_column - first * type_.block), part.columns, to);
    }
    to += part.columns;
  }
  return absl::OkStatus();
}

absl::Status GgufMatrix::ReadRows(const MatrixPart& part, WeightFormat format,
                                  absl::Span<std::byte> out) const {
  SLUICE_CHECK(IsReadableAs(format) && part.row_step == 1);
  const WeightFormatTraits& as = TraitsOf(format);
  SLUICE_CHECK(part.first_column % kBlock == 0 && part.columns % kBlock == 0);
  std::byte* to = out.data();
  if (HasTwoLevelScales(format)) {
    for (int64_t row = part.first_row; row < part.first_row + part.rows; ++row) {
      if (absl::Status read = ReadTwoLevelRow(row, part, as, to); !read.ok()) return read;
      to += part.columns / as.group * as.group_bytes;
    }
    return absl::OkStatus();
  }
  for (int64_t row = part.first_row; row < part.first_row + part.rows; ++row) {
    const std::byte* block = BlocksOf(row, part.first_column / kBlock);
    for (int64_t i = 0; i < part.columns; i += kBlock, block += type_.size, to += as.group_bytes) {
      if (format == WeightFormat::kMxFp4) {
        if (ByteAt(block) == kNoFp4Scale) return ScaleError();
        WriteFp4Group(block, to);
        continue;
      }
      const AffineBlock read = affine_->read(block);
      if (!std::isfinite(read.scale)) return ScaleError();
      WriteGroup(read, as, to);
    }
  }
  return absl::OkStatus();
}

absl::Status GgufMatrix::ReadTwoLevelRow(int64_t row, const MatrixPart& part,
                                         const WeightFormatTraits& as, std::byte* to) const {
  SLUICE_CHECK(part.first_column % as.group == 0 && part.columns % as.group == 0);
  std::array<TwoLevelPart, kMostGroup / kBlock> parts;
  const auto group = absl::MakeSpan(parts).first(as.group / kBlock);
  for (int64_t column = part.first_column; column < part.first_column + part.columns;
       column += as.group, to += as.group_bytes) {
    const std::byte* const block = BlocksOf(row, column / type_.block);
    for (int64_t i = 0; i < static_cast<int64_t>(group.size()); ++i) {
      group[i] = two_level_->read(block, column % type_.block / kBlock + i);
    }
    if (!std::isfinite(FloatFromHalf(group[0].d)) || !std::isfinite(FloatFromHalf(group[0].e))) {
      return ScaleError();
    }
    WriteTwoLevelGroup(group, as, to);
  }
  return absl::OkStatus();
}

}  // namespace

std::unique_ptr<PublishedMatrix> OpenGgufMatrix(PackedTensor tensor, const StoredTensor& stored,
                                                int64_t columns) {
  SLUICE_CHECK(stored.type.is_in_blocks() && columns % stored.type.block == 0);
  return std::make_unique<GgufMatrix>(std::move(tensor), stored.type, columns);
}

}  // namespace sluice
