// Numbers of fewer bits than F32.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace sluice::cuda::emulator {

// Of the lower half.
inline float FromBFloat16(uint32_t bits) { return std::bit_cast<float>((bits & 0xffff) << 16); }

// To the nearest, ties to even; NaN as NVIDIA's GPUs have it.
inline uint32_t ToBFloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return 0x7fff;
  return (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
}

// E4M3: four bits of exponent with a bias of 7, three of the fraction; no infinities.
inline float FromE4M3(uint32_t bits) {
  const int exponent = static_cast<int>(bits >> 3 & 0xf);
  const int fraction = static_cast<int>(bits & 0x7);
  float value = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -9)
                              : std::ldexp(static_cast<float>(8 + fraction), exponent - 10);
  if ((bits & 0x7f) == 0x7f) value = NAN;
  return (bits & 0x80) != 0 ? -value : value;
}

}  // namespace sluice::cuda::emulator
