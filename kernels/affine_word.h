// A group's scale and zero point in one word: the upper 24 bits are those of the scale as a float,
// rounded to 16 significant bits, the lower 8 the zero point. A scale of F16, BF16 or a power of
// two is kept exactly. A weight is scale * (q - zero point). Pure functions.
#pragma once

#include <bit>
#include <cstdint>

namespace sluice {

// Rounds the scale to nearest, ties to even. REQUIRES: zero < 256.
constexpr uint32_t AffineWord(float scale, uint32_t zero) {
  const uint32_t bits = std::bit_cast<uint32_t>(scale);
  if ((bits & 0x7fffffff) > 0x7f800000) return (bits & 0xffffff00) | 0x00400000 | zero;  // a NaN
  return ((bits + 0x7f + ((bits >> 8) & 1)) & 0xffffff00) | zero;
}

constexpr float AffineScale(uint32_t word) { return std::bit_cast<float>(word & 0xffffff00); }
constexpr int32_t AffineZero(uint32_t word) { return static_cast<int32_t>(word & 0xff); }

}  // namespace sluice
