// Four-bit floats (E2M1: a sign, two bits of exponent, one of mantissa), and the scale of 32 of them
// (E8M0: a power of two), as OCP Microscaling formats 1.0 has them. All are BF16 numbers but for the
// least scale.
#pragma once

#include <cmath>
#include <cstdint>

namespace sluice {

// By the code: the sign is its highest bit.
inline constexpr float kFp4Numbers[16] = {0,     0.5f,  1,  1.5f,  2,  3,  4,  6,
                                          -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};
inline constexpr float kLargestFp4 = 6;

inline constexpr uint8_t kNoFp4Scale = 255;
inline constexpr int kFp4ScaleBias = 127;

// 2^(code - 127); not a number for 255.
inline float Fp4BlockScale(uint8_t code) {
  return code == kNoFp4Scale ? NAN : std::ldexp(1.0f, code - kFp4ScaleBias);
}

}  // namespace sluice
