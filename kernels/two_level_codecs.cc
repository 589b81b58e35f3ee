// Codecs of the formats with scales of two levels. No vectors: files of these formats are read as
// they are, and the encoder, which takes powers of two as d and e, is for tests and conversions.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/two_level_scales.h"
#include "kernels/weight_codecs.h"
#include "kernels/weight_format.h"

namespace sluice {
namespace {

constexpr uint16_t kHalfNaN = 0x7e00;

// The least power of two that is at least `least`, of those that F16 has as normal numbers, as F16.
uint16_t HalfPowerOfTwo(float least) {
  constexpr int kLowest = -14, kHighest = 15, kBias = 15;
  if (!(least > 0)) return static_cast<uint16_t>((kLowest + kBias) << 10);
  int exponent = 0;
  const float fraction = std::frexp(least, &exponent);  // in [0.5, 1)
  if (fraction == 0.5f) --exponent;
  return static_cast<uint16_t>((std::clamp(exponent, kLowest, kHighest) + kBias) << 10);
}

// Of the weights of 32 inputs: what is subtracted, and what spans a run of them.
template <WeightFormat kFormat>
struct PartRange {
  using Layout = TwoLevelLayout<kFormat>;
  float minimum = 0;
  float scales[Layout::kRunsOfPart] = {};
};

// INT4_K counts up from the least weight, or zero; INT6_K around the middle, where that is below zero.
template <WeightFormat kFormat>
PartRange<kFormat> RangeOf(const float* weights) {
  using Layout = TwoLevelLayout<kFormat>;
  PartRange<kFormat> range;
  const auto [low, high] = std::minmax_element(weights, weights + kWeightGroup);
  range.minimum = std::max(0.0f, Layout::kLeast == 0 ? -*low : -(*low + *high) / 2);
  for (int64_t r = 0; r < Layout::kRunsOfPart; ++r) {
    for (int64_t i = r * Layout::kRun; i < (r + 1) * Layout::kRun; ++i) {
      const float above = weights[i] + range.minimum;
      const float span = above < 0 ? above / std::min(Layout::kLeast, -1) : above / Layout::kMost;
      range.scales[r] = std::max(range.scales[r], span);
    }
  }
  return range;
}

uint8_t RoundedTo(float value, float most) {
  return static_cast<uint8_t>(std::clamp(std::nearbyint(value), 0.0f, most));
}

void PutNumbers4(const uint8_t* numbers, std::byte* to) {
  for (int64_t i = 0; i < kWeightGroup; i += 2) {
    *to++ = static_cast<std::byte>(numbers[i] | numbers[i + 1] << 4);
  }
}

// As in INT6.
void PutNumbers6(const uint8_t* numbers, std::byte* to) {
  for (int64_t i = 0; i < kWeightGroup; i += 4, numbers += 4) {
    *to++ = static_cast<std::byte>((numbers[0] & 15) | numbers[1] << 4);
    *to++ = static_cast<std::byte>((numbers[2] & 15) | numbers[3] << 4);
    *to++ = static_cast<std::byte>(numbers[0] >> 4 | numbers[1] >> 4 << 2 | numbers[2] >> 4 << 4 |
                                   numbers[3] >> 4 << 6);
  }
}

template <WeightFormat kFormat>
void EncodeGroup(const float* weights, std::byte* out) {
  using Layout = TwoLevelLayout<kFormat>;
  constexpr float kMostScale = 127, kMostMinimum = 255;
  PartRange<kFormat> ranges[Layout::kParts];
  float largest_scale = 0, largest_minimum = 0;
  for (int64_t p = 0; p < Layout::kParts; ++p) {
    ranges[p] = RangeOf<kFormat>(weights + p * kWeightGroup);
    largest_minimum = std::max(largest_minimum, ranges[p].minimum);
    for (const float scale : ranges[p].scales) largest_scale = std::max(largest_scale, scale);
  }
  const uint16_t levels[2] = {HalfPowerOfTwo(largest_scale / kMostScale),
                              HalfPowerOfTwo(largest_minimum / kMostMinimum)};
  const float d = FloatFromHalf(levels[0]), e = FloatFromHalf(levels[1]);
  std::memcpy(out, levels, sizeof(levels));
  std::byte* part = out + sizeof(levels);
  for (int64_t p = 0; p < Layout::kParts; ++p, part += Layout::kPartBytes) {
    for (int64_t r = 0; r < Layout::kRunsOfPart; ++r) {
      part[r] = std::byte{RoundedTo(std::ceil(ranges[p].scales[r] / d), kMostScale)};
    }
    part[Layout::kRunsOfPart] = std::byte{RoundedTo(ranges[p].minimum / e, kMostMinimum)};
  }
  const TwoLevelScales<kFormat> kept(out);
  for (int64_t p = 0; p < Layout::kParts; ++p, part += Layout::kCodeBytes) {
    uint8_t numbers[kWeightGroup] = {};
    for (int64_t i = 0; i < kWeightGroup; ++i) {
      const float scale = kept.scales[p * Layout::kRunsOfPart + i / Layout::kRun];
      const float q = scale > 0 ? (weights[p * kWeightGroup + i] + kept.minimums[p]) / scale : 0;
      numbers[i] = RoundedTo(q - Layout::kLeast, Layout::kMost - Layout::kLeast);
    }
    Layout::kBits == 4 ? PutNumbers4(numbers, part) : PutNumbers6(numbers, part);
  }
}

// Groups with weights that are not finite are no numbers.
template <WeightFormat kFormat>
void EncodeTwoLevel(const float* weights, int64_t num_groups, std::byte* out) {
  constexpr const WeightFormatTraits& kTraits = TraitsOf(kFormat);
  for (; num_groups > 0; --num_groups, weights += kTraits.group, out += kTraits.group_bytes) {
    if (std::all_of(weights, weights + kTraits.group, [](float w) { return std::isfinite(w); })) {
      EncodeGroup<kFormat>(weights, out);
    } else {
      std::memset(out, 1, kTraits.group_bytes);
      std::memcpy(out, &kHalfNaN, sizeof(kHalfNaN));
    }
  }
}

template <WeightFormat kFormat>
void DecodeTwoLevel(const std::byte* groups, int64_t num_groups, float* weights) {
  using Layout = TwoLevelLayout<kFormat>;
  for (; num_groups > 0; --num_groups, groups += TraitsOf(kFormat).group_bytes) {
    const TwoLevelScales<kFormat> scales(groups);
    const std::byte* codes = groups + Layout::kHeaderBytes;
    for (int64_t p = 0; p < Layout::kParts; ++p, codes += Layout::kCodeBytes) {
      int8_t numbers[kWeightGroup];
      Layout::kBits == 4 ? ReadInt4(codes, numbers) : ReadInt6(codes, numbers);
      constexpr int kAbove = Layout::kBits == 4 ? 8 : 0;  // ReadInt4's are from -8 on
      for (int64_t i = 0; i < kWeightGroup; ++i) {
        const float scale = scales.scales[p * Layout::kRunsOfPart + i / Layout::kRun];
        *weights++ = scale * static_cast<float>(numbers[i] + kAbove) - scales.minimums[p];
      }
    }
  }
}

}  // namespace

void EncodeInt4K(const float* weights, int64_t num_groups, std::byte* out) {
  EncodeTwoLevel<WeightFormat::kInt4K>(weights, num_groups, out);
}
void EncodeInt4KG128(const float* weights, int64_t num_groups, std::byte* out) {
  EncodeTwoLevel<WeightFormat::kInt4KG128>(weights, num_groups, out);
}
void EncodeInt6K(const float* weights, int64_t num_groups, std::byte* out) {
  EncodeTwoLevel<WeightFormat::kInt6K>(weights, num_groups, out);
}
void EncodeInt6KG128(const float* weights, int64_t num_groups, std::byte* out) {
  EncodeTwoLevel<WeightFormat::kInt6KG128>(weights, num_groups, out);
}

void DecodeInt4K(const std::byte* groups, int64_t num_groups, float* weights) {
  DecodeTwoLevel<WeightFormat::kInt4K>(groups, num_groups, weights);
}
void DecodeInt4KG128(const std::byte* groups, int64_t num_groups, float* weights) {
  DecodeTwoLevel<WeightFormat::kInt4KG128>(groups, num_groups, weights);
}
void DecodeInt6K(const std::byte* groups, int64_t num_groups, float* weights) {
  DecodeTwoLevel<WeightFormat::kInt6K>(groups, num_groups, weights);
}
void DecodeInt6KG128(const std::byte* groups, int64_t num_groups, float* weights) {
  DecodeTwoLevel<WeightFormat::kInt6KG128>(groups, num_groups, weights);
}

}  // namespace sluice
