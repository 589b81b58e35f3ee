// FP8 in the format E4M3 (Micikevicius et al. 2022, "FP8 Formats for Deep Learning"; F8_E4M3 of
// safetensors, float8_e4m3fn of PyTorch): a sign, four bits of exponent with a bias of 7, three of
// mantissa. The largest number is 448, the smallest normal one 2^-6, subnormal ones are multiples
// of 2^-9; there is no infinity, and 0x7f and 0xff are no number.
//
// Numbers that are kept in FP8 share a scale, a BF16 power of two: weights by groups of 32
// (kernels/weight_format.h), keys and values by head vector (kernels/kv_format.h). A code times such
// a scale is a BF16 number exactly, so what multiplies BF16 numbers multiplies these.
//
// Pure functions, for the host and for kernels alike.
#pragma once

#include <bit>
#include <cstdint>

namespace sluice {

// The largest number, and the scales that are used: 2^-117, of which the smallest code is a normal
// number still, to 2^7. What is larger than 448 * 2^7 = 57,344 saturates.
inline constexpr float kLargestFp8 = 448;
inline constexpr float kLeastFp8Scale = 0x1p-117f;
inline constexpr float kLargestFp8Scale = 0x1p7f;

// Exact. 2^120 makes the exponent of a float, which has 127 added, of that of a code, which has 7.
constexpr float FloatFromFp8(uint8_t code) {
  const uint32_t sign = static_cast<uint32_t>(code & 0x80) << 24;
  const uint32_t magnitude = code & 0x7f;
  if (magnitude == 0x7f) return std::bit_cast<float>(sign | 0x7fc00000u);
  return std::bit_cast<float>(sign | magnitude << 20) * 0x1p120f;
}

// Rounds to nearest, ties to even; what is larger than 448, infinities too, becomes 448. A NaN
// stays one.
constexpr uint8_t Fp8FromFloat(float value) {
  constexpr uint32_t kLargest = std::bit_cast<uint32_t>(kLargestFp8), kInfinity = 0x7f800000;
  constexpr uint32_t kLeastNormal = std::bit_cast<uint32_t>(0x1p-6f);
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 24 & 0x80;
  uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > kInfinity) return static_cast<uint8_t>(sign | 0x7f);
  if (magnitude > kLargest) magnitude = kLargest;
  if (magnitude < kLeastNormal) {
    // In the last place of 2^14, a float counts 2^-9.
    const float counted = std::bit_cast<float>(magnitude) + 0x1p14f;
    return static_cast<uint8_t>(
        sign | (std::bit_cast<uint32_t>(counted) - std::bit_cast<uint32_t>(0x1p14f)));
  }
  const uint32_t rounded = magnitude + 0x7ffff + (magnitude >> 20 & 1);
  return static_cast<uint8_t>(sign | ((rounded >> 20) - (120 << 3)));
}

// The scale of numbers whose largest magnitude has these bits: the least power of two with which it
// is at most 448, within the bounds above, as BF16; NaN where one of the numbers is not finite.
constexpr uint16_t Fp8ScaleFor(uint32_t largest_bits) {
  constexpr uint32_t kInfinity = 0x7f800000, kMantissaOf448 = 0x600000, kExponentOf448 = 8;
  constexpr uint32_t kLeast = std::bit_cast<uint32_t>(kLeastFp8Scale) >> 23;
  constexpr uint32_t kLargest = std::bit_cast<uint32_t>(kLargestFp8Scale) >> 23;
  if (largest_bits >= kInfinity) return 0x7fc0;
  // One exponent more where the mantissa is larger than that of 448.
  uint32_t exponent = (largest_bits + (0x7fffff - kMantissaOf448)) >> 23;
  exponent = exponent < kLeast + kExponentOf448 ? kLeast : exponent - kExponentOf448;
  if (exponent > kLargest) exponent = kLargest;
  return static_cast<uint16_t>(exponent << 7);
}

// What a number is multiplied with before it becomes a code: 1 / scale, exactly. `scale` is one of
// Fp8ScaleFor that is a number.
constexpr float Fp8Inverse(uint16_t scale) {
  return std::bit_cast<float>((254u << 23) - (uint32_t{scale} << 16));
}

}  // namespace sluice
