// The functions by which the table of weight_format.h encodes and decodes each format. Others call
// EncodeRow, DecodeRow and ReadQuotients. Thread-safe; the bits are the same on every machine.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice {

// Writes `num_groups` groups of weights one after another; of plain formats, so many elements.
using EncodeGroups = void(const float* weights, int64_t num_groups, std::byte* out);
EncodeGroups EncodeF32, EncodeBF16, EncodeInt8, EncodeInt8G64, EncodeInt6, EncodeInt4, EncodeFp8;
EncodeGroups EncodeInt4Zp, EncodeInt8Zp, EncodeInt4ZpG128, EncodeInt8ZpG128;
EncodeGroups EncodeInt4K, EncodeInt4KG128, EncodeInt6K, EncodeInt6KG128, EncodeMxFp4;

// The exact weights of `num_groups` groups, or of so many elements.
using DecodeGroups = void(const std::byte* groups, int64_t num_groups, float* weights);
DecodeGroups DecodeF32, DecodeBF16, DecodeInt8, DecodeInt8G64, DecodeInt6, DecodeInt4, DecodeFp8;
DecodeGroups DecodeInt4Zp, DecodeInt8Zp, DecodeInt4ZpG128, DecodeInt8ZpG128;
DecodeGroups DecodeInt4K, DecodeInt4KG128, DecodeInt6K, DecodeInt6KG128, DecodeMxFp4;

// The numbers q of one group, whose codes (behind its scale) begin at `codes`.
using ReadCodes = void(const std::byte* codes, int8_t* quotients);
ReadCodes ReadBytes, ReadBytes64, ReadInt6, ReadInt4;

}  // namespace sluice
