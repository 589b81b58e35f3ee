// The scales of INT4 and INT6 weights: five bits of exponent, three of mantissa and a sign. Code
// 8 e + m stands for 2^(e - 23) * (1 + m / 8), or for 2^-25 * m where e is 0, e in [0, 30]; 255 is
// no number. It is the upper half of an F16 number's magnitude, times 2^-8, which moves the range to
// where weights are: from 2^-22 in full, up to 240. Times a number q of INT4, a BF16 number
// without rounding. Pure functions.
#pragma once

#include <bit>
#include <cstdint>

namespace sluice {

inline constexpr uint32_t kLargestGroupScaleCode = 0xf7;
inline constexpr uint32_t kNaNGroupScaleCode = 0xff;
inline constexpr float kLargestGroupScale = 240;

// Of codes up to kLargestGroupScaleCode.
constexpr float FloatFromGroupScaleCode(uint32_t code) {
  return std::bit_cast<float>(code << 20) * 0x1p104f;  // where e is 0, of a subnormal number
}

// The largest code whose scale is at most `value`, from 0 to kLargestGroupScaleCode.
// REQUIRES: value >= 0.
constexpr uint32_t GroupScaleCodeBelow(float value) {
  if (value >= kLargestGroupScale) return kLargestGroupScaleCode;
  if (value < 0x1p-22f) return static_cast<uint32_t>(value * 0x1p25f);
  return (std::bit_cast<uint32_t>(value) >> 20) - (104u << 3);
}

// By the upper eleven bits of the magnitude of a BF16 number: the largest code up to it, that of no
// number for what is none or infinite. A table, so that files which are compiled for other
// instructions may use it.
struct GroupScaleCodes {
  uint8_t of[2048];
};
inline constexpr GroupScaleCodes kGroupScaleCodes = [] {
  GroupScaleCodes codes{};
  for (uint32_t i = 0; i < 2048; ++i) {
    const bool is_finite = i < 0x7f8;
    codes.of[i] = static_cast<uint8_t>(
        is_finite ? GroupScaleCodeBelow(std::bit_cast<float>(i << 20)) : kNaNGroupScaleCode);
  }
  return codes;
}();

// Whether a BF16 number is such a scale.
constexpr bool IsGroupScale(uint16_t bfloat16) {
  const uint32_t magnitude = bfloat16 & 0x7fffu;
  if (magnitude > 0x7f80) return true;  // no number
  const uint32_t code = GroupScaleCodeBelow(std::bit_cast<float>(magnitude << 16));
  return std::bit_cast<float>(magnitude << 16) == FloatFromGroupScaleCode(code);
}

}  // namespace sluice
