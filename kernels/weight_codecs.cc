#include "kernels/weight_codecs.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "kernels/dtype.h"
#include "kernels/fp8.h"
#include "kernels/group_scale.h"
#include "kernels/weight_format.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/weight_codecs.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

// Sums are taken in an order that no target changes, so that all find the same quotients.
HWY_BEFORE_NAMESPACE();
namespace sluice {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, 16>;

constexpr uint32_t kInfinity = 0x7f800000;

template <WeightFormat kFormat>
constexpr int64_t kBytesOf = TraitsOf(kFormat).group_bytes;

// Scales that INT6 and INT4 try: so many neighbours of either sign. [-8, 7] is not symmetric, so
// the sign of the scale lets the extreme weight be -8; a slightly smaller scale often serves the
// other 31 better.
constexpr int kTrials = 16;
constexpr uint32_t kNeighbours = kTrials / 2;

// Too small a scale has no reciprocal; its weights are as good as zero.
constexpr float kLeastScale = 0x1p-126f;

// The bits of the largest magnitude: those of an infinity or more where a weight is not finite.
HWY_INLINE uint32_t LargestMagnitude(const float* weights, int64_t count = kWeightGroup) {
  const Floats d;
  const hn::RebindToUnsigned<Floats> du;
  const auto magnitude_bits = hn::Set(du, 0x7fffffff);
  auto largest = hn::Zero(du);
  for (int64_t i = 0; i < count; i += hn::Lanes(d)) {
    largest = hn::Max(largest, hn::And(hn::BitCast(du, hn::LoadU(d, weights + i)), magnitude_bits));
  }
  return hn::GetLane(hn::MaxOfLanes(du, largest));
}

template <class V>
HWY_INLINE V Quotient(V weights, V inverse_scale, float lowest, float highest) {
  const Floats d;
  const auto scaled = hn::Mul(weights, inverse_scale);
  return hn::Round(hn::Min(hn::Max(scaled, hn::Set(d, lowest)), hn::Set(d, highest)));
}

HWY_INLINE void Quotients(const float* weights, float scale, float lowest, float highest,
                          float* quotients, int64_t count = kWeightGroup) {
  const Floats d;
  const auto inverse = hn::Set(d, 1 / scale);
  for (int64_t i = 0; i < count; i += hn::Lanes(d)) {
    hn::Store(Quotient(hn::LoadU(d, weights + i), inverse, lowest, highest), d, quotients + i);
  }
}

// The first of the least errors of the trials; 0 where one is not a number.
HWY_INLINE int IndexOfLeast(const float* errors) {
  const Floats d;
  auto least = hn::Load(d, errors);
  for (int64_t trial = hn::Lanes(d); trial < kTrials; trial += hn::Lanes(d)) {
    least = hn::Min(least, hn::Load(d, errors + trial));
  }
  const auto everywhere = hn::MinOfLanes(d, least);
  for (int64_t trial = 0; trial < kTrials; trial += hn::Lanes(d)) {
    const intptr_t first = hn::FindFirstTrue(d, hn::Eq(hn::Load(d, errors + trial), everywhere));
    if (first >= 0) return static_cast<int>(trial + first);
  }
  return 0;
}

// The scale of trial `trial`: from kNeighbours - 1 above the code `lowest` downwards, so that the
// largest wins where all errors are infinite, then the same of the other sign.
HWY_ALIGN constexpr uint32_t kCodesAbove[kTrials] = {7, 6, 5, 4, 3, 2, 1, 0,
                                                     7, 6, 5, 4, 3, 2, 1, 0};
HWY_ALIGN constexpr float kSigns[kTrials] = {1,  1,  1,  1,  1,  1,  1,  1,
                                             -1, -1, -1, -1, -1, -1, -1, -1};

// Of numbers in [-half, half - 1], the scale with the least squared error. Each trial has a lane.
HWY_INLINE float BestScale(const float* weights, float largest, float half) {
  HWY_ALIGN float scales[kTrials];
  HWY_ALIGN float errors[kTrials];
  const Floats d;
  const hn::RebindToUnsigned<Floats> du;
  const uint32_t lowest = std::clamp<uint32_t>(GroupScaleCodeBelow(largest / (half + 1)), 1,
                                               kLargestGroupScaleCode - kNeighbours + 1);
  for (int trial = 0; trial < kTrials; trial += static_cast<int>(hn::Lanes(d))) {
    const auto codes = hn::Add(hn::Set(du, lowest), hn::Load(du, kCodesAbove + trial));
    const auto magnitude = hn::Mul(hn::BitCast(d, hn::ShiftLeft<20>(codes)), hn::Set(d, 0x1p104f));
    const auto scale = hn::Mul(magnitude, hn::Load(d, kSigns + trial));
    const auto inverse = hn::Div(hn::Set(d, 1.0f), scale);
    auto sum = hn::Zero(d);
    for (int64_t i = 0; i < kWeightGroup; ++i) {
      const auto weight = hn::Set(d, weights[i]);
      const auto quotient = Quotient(weight, inverse, -half, half - 1);
      const auto error = hn::Sub(weight, hn::Mul(scale, quotient));
      sum = hn::Add(sum, hn::Mul(error, error));
    }
    hn::Store(scale, d, scales + trial);
    hn::Store(sum, d, errors + trial);
  }
  return scales[IndexOfLeast(errors)];
}

HWY_INLINE void StoreScale(float scale, std::byte* out) {
  const uint16_t bits = BFloat16FromFloat(scale);
  std::memcpy(out, &bits, sizeof(bits));
}

template <int64_t kGroup>
HWY_INLINE void EncodeGroupAsInt8(const float* weights, std::byte* out) {
  const uint32_t largest_bits = LargestMagnitude(weights, kGroup);
  // The smallest bfloat16 with which the largest weight is at most 127.
  const float least = std::bit_cast<float>(largest_bits) / 127;
  float scale = FloatFromBFloat16(BFloat16FromFloat(least));
  if (scale < least) {
    scale = FloatFromBFloat16(static_cast<uint16_t>(BFloat16FromFloat(least) + 1));
  }
  std::byte* quotients = out + 2;
  std::memset(quotients, 0, kGroup);
  if (largest_bits >= kInfinity) return StoreScale(NAN, out);
  if (scale < kLeastScale) return StoreScale(0, out);
  HWY_ALIGN float values[kGroup];
  Quotients(weights, scale, -127, 127, values, kGroup);
  for (int64_t i = 0; i < kGroup; ++i) {
    quotients[i] = static_cast<std::byte>(static_cast<int32_t>(values[i]));
  }
  StoreScale(scale, out);
}

// Scale and numbers q + half of a group, q in [-half, half - 1].
HWY_INLINE void QuantizeGroup(const float* weights, float half, std::byte* scale_out,
                              uint32_t* numbers) {
  const uint32_t largest_bits = LargestMagnitude(weights);
  std::fill_n(numbers, kWeightGroup, static_cast<uint32_t>(half));
  if (largest_bits >= kInfinity) return StoreScale(NAN, scale_out);
  if (largest_bits == 0) return StoreScale(0, scale_out);
  const float scale = BestScale(weights, std::bit_cast<float>(largest_bits), half);
  HWY_ALIGN float quotients[kWeightGroup];
  Quotients(weights, scale, -half, half - 1, quotients);
  for (int64_t i = 0; i < kWeightGroup; ++i) {
    numbers[i] = static_cast<uint32_t>(static_cast<int32_t>(quotients[i] + half));
  }
  StoreScale(scale, scale_out);
}

HWY_INLINE void EncodeGroupAsInt6(const float* weights, std::byte* out) {
  uint32_t numbers[kWeightGroup];
  QuantizeGroup(weights, 32, out, numbers);
  std::byte* three = out + 2;
  for (const uint32_t* n = numbers; n != numbers + kWeightGroup; n += 4, three += 3) {
    three[0] = static_cast<std::byte>((n[0] & 15) | (n[1] & 15) << 4);
    three[1] = static_cast<std::byte>((n[2] & 15) | (n[3] & 15) << 4);
    three[2] = static_cast<std::byte>(n[0] >> 4 | n[1] >> 4 << 2 | n[2] >> 4 << 4 | n[3] >> 4 << 6);
  }
}

HWY_INLINE void EncodeGroupAsInt4(const float* weights, std::byte* out) {
  uint32_t numbers[kWeightGroup];
  QuantizeGroup(weights, 8, out, numbers);
  for (int64_t i = 0; i < kWeightGroup / 2; ++i) {
    out[2 + i] = static_cast<std::byte>(numbers[2 * i] | numbers[2 * i + 1] << 4);
  }
}

// Fp8FromFloat of finite numbers, in 32 bits each.
template <class V>
HWY_INLINE hn::VFromD<hn::RebindToUnsigned<Floats>> Fp8Codes(V v) {
  const Floats d;
  const hn::RebindToUnsigned<Floats> du;
  const auto bits = hn::BitCast(du, v);
  const auto sign = hn::And(hn::ShiftRight<24>(bits), hn::Set(du, 0x80));
  const auto magnitude =
      hn::Min(hn::And(bits, hn::Set(du, 0x7fffffff)), hn::BitCast(du, hn::Set(d, kLargestFp8)));
  const auto odd = hn::And(hn::ShiftRight<20>(magnitude), hn::Set(du, 1));
  const auto rounded = hn::Add(magnitude, hn::Add(odd, hn::Set(du, 0x7ffff)));
  const auto normal = hn::Sub(hn::ShiftRight<20>(rounded), hn::Set(du, 120 << 3));
  const auto counter = hn::Set(d, 0x1p14f);
  const auto counted = hn::BitCast(du, hn::Add(hn::BitCast(d, magnitude), counter));
  const auto subnormal = hn::Sub(counted, hn::BitCast(du, counter));
  const auto is_subnormal = hn::Lt(hn::BitCast(d, magnitude), hn::Set(d, 0x1p-6f));
  const auto code = hn::IfThenElse(is_subnormal, hn::BitCast(d, subnormal), hn::BitCast(d, normal));
  return hn::Or(sign, hn::BitCast(du, code));
}

HWY_INLINE void EncodeGroupAsFp8(const float* weights, std::byte* out) {
  const Floats d;
  const hn::RebindToUnsigned<Floats> du;
  const uint16_t scale = Fp8ScaleFor(LargestMagnitude(weights));
  std::memcpy(out, &scale, sizeof(scale));
  std::byte* const codes = out + sizeof(scale);
  if (std::isnan(FloatFromBFloat16(scale))) {
    std::memset(codes, 0, kWeightGroup);
    return;
  }
  const auto inverse = hn::Set(d, Fp8Inverse(scale));
  HWY_ALIGN uint32_t wide[kWeightGroup];
  for (int64_t i = 0; i < kWeightGroup; i += hn::Lanes(d)) {
    hn::Store(Fp8Codes(hn::Mul(hn::LoadU(d, weights + i), inverse)), du, wide + i);
  }
  for (int64_t i = 0; i < kWeightGroup; ++i) codes[i] = static_cast<std::byte>(wide[i]);
}

void Int8Groups(const float* weights, int64_t num_groups, std::byte* out) {
  for (; num_groups > 0;
       --num_groups, weights += kWeightGroup, out += kBytesOf<WeightFormat::kInt8>) {
    EncodeGroupAsInt8<kWeightGroup>(weights, out);
  }
}

void Int8G64Groups(const float* weights, int64_t num_groups, std::byte* out) {
  for (; num_groups > 0; --num_groups, weights += 64, out += kBytesOf<WeightFormat::kInt8G64>) {
    EncodeGroupAsInt8<64>(weights, out);
  }
}

void Int6Groups(const float* weights, int64_t num_groups, std::byte* out) {
  for (; num_groups > 0;
       --num_groups, weights += kWeightGroup, out += kBytesOf<WeightFormat::kInt6>) {
    EncodeGroupAsInt6(weights, out);
  }
}

void Int4Groups(const float* weights, int64_t num_groups, std::byte* out) {
  for (; num_groups > 0;
       --num_groups, weights += kWeightGroup, out += kBytesOf<WeightFormat::kInt4>) {
    EncodeGroupAsInt4(weights, out);
  }
}

void Fp8Groups(const float* weights, int64_t num_groups, std::byte* out) {
  for (; num_groups > 0;
       --num_groups, weights += kWeightGroup, out += kBytesOf<WeightFormat::kFp8>) {
    EncodeGroupAsFp8(weights, out);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace sluice
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice {
namespace {

HWY_EXPORT(Int8Groups);
HWY_EXPORT(Int8G64Groups);
HWY_EXPORT(Int6Groups);
HWY_EXPORT(Int4Groups);
HWY_EXPORT(Fp8Groups);

constexpr int8_t Low(std::byte byte) { return static_cast<int8_t>(byte & std::byte{15}); }
constexpr int8_t High(std::byte byte) { return static_cast<int8_t>(byte >> 4); }

float NumberOf(WeightCodes codes, int8_t quotient) {
  return codes == WeightCodes::kFp8 ? FloatFromFp8(static_cast<uint8_t>(quotient))
                                    : static_cast<float>(quotient);
}

template <WeightFormat kFormat>
void DecodeAs(const std::byte* groups, int64_t num_groups, float* weights) {
  constexpr const WeightFormatTraits& kTraits = TraitsOf(kFormat);
  for (; num_groups > 0; --num_groups, groups += kTraits.group_bytes, weights += kTraits.group) {
    uint16_t bits;
    std::memcpy(&bits, groups, sizeof(bits));
    const float scale = FloatFromBFloat16(bits);
    int8_t quotients[kTraits.group];
    kTraits.read_codes(groups + sizeof(bits), quotients);
    for (int64_t i = 0; i < kTraits.group; ++i) {
      weights[i] = scale * NumberOf(kTraits.codes, quotients[i]);
    }
  }
}

}  // namespace

void ReadBytes(const std::byte* codes, int8_t* quotients) {
  std::memcpy(quotients, codes, kWeightGroup);
}

void ReadBytes64(const std::byte* codes, int8_t* quotients) { std::memcpy(quotients, codes, 64); }

void ReadInt6(const std::byte* three, int8_t* quotients) {
  for (int64_t i = 0; i < kWeightGroup; i += 4, three += 3) {
    const int8_t low[4] = {Low(three[0]), High(three[0]), Low(three[1]), High(three[1])};
    for (int j = 0; j < 4; ++j) {
      const auto high = static_cast<int>(three[2] >> (2 * j) & std::byte{3});
      quotients[i + j] = static_cast<int8_t>(low[j] + 16 * high - 32);
    }
  }
}

void ReadInt4(const std::byte* pairs, int8_t* quotients) {
  for (int64_t i = 0; i < kWeightGroup / 2; ++i) {
    quotients[2 * i] = static_cast<int8_t>(Low(pairs[i]) - 8);
    quotients[2 * i + 1] = static_cast<int8_t>(High(pairs[i]) - 8);
  }
}

void EncodeF32(const float* weights, int64_t count, std::byte* out) {
  std::memcpy(out, weights, static_cast<size_t>(count) * sizeof(float));
}
void EncodeBF16(const float* weights, int64_t count, std::byte* out) {
  std::transform(weights, weights + count, reinterpret_cast<uint16_t*>(out), BFloat16FromFloat);
}
void EncodeInt8(const float* weights, int64_t num_groups, std::byte* out) {
  HWY_DYNAMIC_DISPATCH(Int8Groups)(weights, num_groups, out);
}
void EncodeInt8G64(const float* weights, int64_t num_groups, std::byte* out) {
  HWY_DYNAMIC_DISPATCH(Int8G64Groups)(weights, num_groups, out);
}
void EncodeInt6(const float* weights, int64_t num_groups, std::byte* out) {
  HWY_DYNAMIC_DISPATCH(Int6Groups)(weights, num_groups, out);
}
void EncodeInt4(const float* weights, int64_t num_groups, std::byte* out) {
  HWY_DYNAMIC_DISPATCH(Int4Groups)(weights, num_groups, out);
}
void EncodeFp8(const float* weights, int64_t num_groups, std::byte* out) {
  HWY_DYNAMIC_DISPATCH(Fp8Groups)(weights, num_groups, out);
}

void DecodeF32(const std::byte* elements, int64_t count, float* weights) {
  std::memcpy(weights, elements, static_cast<size_t>(count) * sizeof(float));
}
void DecodeBF16(const std::byte* elements, int64_t count, float* weights) {
  const auto* from = reinterpret_cast<const uint16_t*>(elements);
  std::transform(from, from + count, weights, FloatFromBFloat16);
}
void DecodeInt8(const std::byte* groups, int64_t num_groups, float* weights) {
  DecodeAs<WeightFormat::kInt8>(groups, num_groups, weights);
}
void DecodeInt8G64(const std::byte* groups, int64_t num_groups, float* weights) {
  DecodeAs<WeightFormat::kInt8G64>(groups, num_groups, weights);
}
void DecodeInt6(const std::byte* groups, int64_t num_groups, float* weights) {
  DecodeAs<WeightFormat::kInt6>(groups, num_groups, weights);
}
void DecodeInt4(const std::byte* groups, int64_t num_groups, float* weights) {
  DecodeAs<WeightFormat::kInt4>(groups, num_groups, weights);
}
void DecodeFp8(const std::byte* groups, int64_t num_groups, float* weights) {
  DecodeAs<WeightFormat::kFp8>(groups, num_groups, weights);
}

}  // namespace sluice
#endif  // HWY_ONCE
