// Decoders of GGUF's block formats, one function each, of the signature of GgufType::decode. A
// "run" below is neighbouring weights of a block that share a scale; d and dmin are F16.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice {

// One weight a block.
void DecodeGgufF32(const std::byte* blocks, int64_t count, float* out);
void DecodeGgufF16(const std::byte* blocks, int64_t count, float* out);
void DecodeGgufBF16(const std::byte* blocks, int64_t count, float* out);

// 32 weights a block; weight j has its low four bits in the low half of byte j, weight j + 16 in
// the high half.
void DecodeQ4_0(const std::byte* blocks, int64_t count, float* out);  // d (q - 8)
void DecodeQ4_1(const std::byte* blocks, int64_t count, float* out);  // d q + m
void DecodeQ5_0(const std::byte* blocks, int64_t count, float* out);  // d (q - 16)
void DecodeQ5_1(const std::byte* blocks, int64_t count, float* out);  // d q + m
void DecodeQ8_0(const std::byte* blocks, int64_t count, float* out);  // d q, q a signed byte
// A power of two (E8M0) times a code of E2M1.
void DecodeGgufMxfp4(const std::byte* blocks, int64_t count, float* out);

// 256 weights a block.
void DecodeQ2K(const std::byte* blocks, int64_t count, float* out);  // d s q - dmin m, runs of 16
void DecodeQ3K(const std::byte* blocks, int64_t count, float* out);  // d (s - 32) (q - 4), of 16
void DecodeQ4K(const std::byte* blocks, int64_t count, float* out);  // d s q - dmin m, of 32
void DecodeQ5K(const std::byte* blocks, int64_t count, float* out);  // the same with five bits
void DecodeQ6K(const std::byte* blocks, int64_t count, float* out);  // d s (q - 32), of 16

// 32 neighbouring weights of a block as the formats with scales of two levels have them
// (kernels/two_level_scales.h): weight j is d * scales[j / 16] * numbers[j] - e * minimum.
struct TwoLevelPart {
  uint16_t d, e;  // F16
  int8_t scales[2];
  uint8_t minimum;
  int8_t numbers[32] = {};
};

// Weights [32 part, 32 part + 32) of a block.
using ReadTwoLevelPart = TwoLevelPart(const std::byte* block, int64_t part);
ReadTwoLevelPart ReadQ4_1, ReadQ5_0, ReadQ5_1, ReadQ3K, ReadQ4K, ReadQ5K, ReadQ6K;

}  // namespace sluice
