// Codecs of the formats with zero points. No vectors: files of these formats are read as they are.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/affine_word.h"
#include "kernels/weight_codecs.h"
#include "kernels/weight_format.h"

namespace sluice {
namespace {

// The word of a group, and its numbers.
struct AffineGroup {
  uint32_t word = 0;
  uint8_t numbers[kMostGroup] = {};
};

// Scales below this have no reciprocal; their weights are as good as zero.
constexpr float kLeastAffineScale = 0x1p-120f;

AffineGroup QuantizeAffine(const float* weights, int64_t count, int largest) {
  AffineGroup group;
  float low = 0, high = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (!std::isfinite(weights[i])) return {.word = AffineWord(NAN, 0)};
    low = std::min(low, weights[i]);
    high = std::max(high, weights[i]);
  }
  const float exact = high / static_cast<float>(largest) - low / static_cast<float>(largest);
  const float scale = AffineScale(AffineWord(exact, 0));
  if (!(scale >= kLeastAffineScale) || !std::isfinite(scale)) return group;
  const float zero = std::clamp(std::nearbyint(-low / scale), 0.0f, static_cast<float>(largest));
  group.word = AffineWord(scale, static_cast<uint32_t>(zero));
  for (int64_t i = 0; i < count; ++i) {
    const float number = std::nearbyint(weights[i] / scale) + zero;
    group.numbers[i] = static_cast<uint8_t>(std::clamp(number, 0.0f, static_cast<float>(largest)));
  }
  return group;
}

template <WeightFormat kFormat>
void EncodeAffine(const float* weights, int64_t num_groups, std::byte* out) {
  constexpr const WeightFormatTraits& kTraits = TraitsOf(kFormat);
  for (; num_groups > 0; --num_groups, weights += kTraits.group, out += kTraits.group_bytes) {
    const AffineGroup group = QuantizeAffine(weights, kTraits.group, (1 << kTraits.bits) - 1);
    std::memcpy(out, &group.word, sizeof(group.word));
    std::byte* to = out + sizeof(group.word);
    if constexpr (kTraits.bits == 8) {
      std::memcpy(to, group.numbers, kTraits.group);
    } else {
      for (int64_t i = 0; i < kTraits.group; i += 2) {
        *to++ = static_cast<std::byte>(group.numbers[i] | group.numbers[i + 1] << 4);
      }
    }
  }
}

template <WeightFormat kFormat>
void DecodeAffine(const std::byte* groups, int64_t num_groups, float* weights) {
  constexpr const WeightFormatTraits& kTraits = TraitsOf(kFormat);
  for (; num_groups > 0; --num_groups, groups += kTraits.group_bytes, weights += kTraits.group) {
    uint32_t word;
    std::memcpy(&word, groups, sizeof(word));
    const float scale = AffineScale(word);
    const int32_t zero = AffineZero(word);
    const auto* numbers = reinterpret_cast<const uint8_t*>(groups + sizeof(word));
    for (int64_t i = 0; i < kTraits.group; ++i) {
      const int32_t number = kTraits.bits == 8 ? numbers[i] : numbers[i / 2] >> (i % 2 * 4) & 15;
      weights[i] = scale * static_cast<float>(number - zero);
    }
  }
}

}  // namespace

void EncodeInt4Zp(const float* weights, int64_t num_groups, std::byte* out) {
  EncodeAffine<WeightFormat::kInt4Zp>(weights, num_groups, out);
}
void EncodeInt8Zp(const float* weights, int64_t num_groups, std::byte* out) {
  EncodeAffine<WeightFormat::kInt8Zp>(weights, num_groups, out);
}
void EncodeInt4ZpG128(const float* weights, int64_t num_groups, std::byte* out) {
  EncodeAffine<WeightFormat::kInt4ZpG128>(weights, num_groups, out);
}
void EncodeInt8ZpG128(const float* weights, int64_t num_groups, std::byte* out) {
  EncodeAffine<WeightFormat::kInt8ZpG128>(weights, num_groups, out);
}

void DecodeInt4Zp(const std::byte* groups, int64_t num_groups, float* weights) {
  DecodeAffine<WeightFormat::kInt4Zp>(groups, num_groups, weights);
}
void DecodeInt8Zp(const std::byte* groups, int64_t num_groups, float* weights) {
  DecodeAffine<WeightFormat::kInt8Zp>(groups, num_groups, weights);
}
void DecodeInt4ZpG128(const std::byte* groups, int64_t num_groups, float* weights) {
  DecodeAffine<WeightFormat::kInt4ZpG128>(groups, num_groups, weights);
}
void DecodeInt8ZpG128(const std::byte* groups, int64_t num_groups, float* weights) {
  DecodeAffine<WeightFormat::kInt8ZpG128>(groups, num_groups, weights);
}

}  // namespace sluice
