// Codecs of MXFP4. No vectors: files of it are read as they are, and the encoder is for tests and
// conversions.
#include <algorithm>
#include <cmath>

#include "kernels/fp4.h"
#include "kernels/weight_codecs.h"
#include "kernels/weight_format.h"

namespace sluice {
namespace {

constexpr int64_t kGroup = TraitsOf(WeightFormat::kMxFp4).group;
constexpr int64_t kGroupBytes = TraitsOf(WeightFormat::kMxFp4).group_bytes;

// The scale with which the largest weight is from 4 to below 8 times it: OCP Microscaling 1.0, 6.3.
uint8_t ScaleCodeFor(float largest) {
  constexpr int kLargestExponent = 2;
  if (largest == 0) return kFp4ScaleBias;
  return static_cast<uint8_t>(
      std::clamp(std::ilogb(largest) - kLargestExponent + kFp4ScaleBias, 0, int{kNoFp4Scale} - 1));
}

// The nearest number, of two the one with an even mantissa; beyond the largest that.
uint8_t CodeOf(float number) {
  const float magnitude = std::abs(number);
  uint8_t code = 0;
  while (code < 7) {
    const float middle = (kFp4Numbers[code] + kFp4Numbers[code + 1]) / 2;
    if (magnitude < middle || (magnitude == middle && code % 2 == 0)) break;
    ++code;
  }
  return static_cast<uint8_t>(std::signbit(number) ? code | 8 : code);
}

}  // namespace

void EncodeMxFp4(const float* weights, int64_t num_groups, std::byte* out) {
  for (; num_groups > 0; --num_groups, weights += kGroup) {
    float largest = 0;
    bool is_finite = true;
    for (int64_t i = 0; i < kGroup; ++i) {
      is_finite = is_finite && std::isfinite(weights[i]);
      largest = std::max(largest, std::abs(weights[i]));
    }
    const uint8_t scale = is_finite ? ScaleCodeFor(largest) : kNoFp4Scale;
    const float divisor = is_finite ? Fp4BlockScale(scale) : 1;
    *out++ = std::byte{scale};
    for (int64_t i = 0; i < kGroup; i += 2) {
      const uint8_t low = is_finite ? CodeOf(weights[i] / divisor) : 0;
      const uint8_t high = is_finite ? CodeOf(weights[i + 1] / divisor) : 0;
      *out++ = static_cast<std::byte>(low | high << 4);
    }
  }
}

void DecodeMxFp4(const std::byte* groups, int64_t num_groups, float* weights) {
  for (; num_groups > 0; --num_groups, groups += kGroupBytes) {
    const float scale = Fp4BlockScale(static_cast<uint8_t>(groups[0]));
    for (int64_t i = 1; i < kGroupBytes; ++i) {
      *weights++ = kFp4Numbers[static_cast<int>(groups[i] & std::byte{15})] * scale;
      *weights++ = kFp4Numbers[static_cast<int>(groups[i] >> 4)] * scale;
    }
  }
}

}  // namespace sluice
