#include "kernels/weight_format.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "kernels/check.h"
#include "kernels/dtype.h"
#include "kernels/fp8.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/weight_format.cc"
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

// Scales that INT4 tries are the largest magnitude of a group divided by these. [-8, 7] is not
// symmetric, so the sign of the scale lets the extreme weight be -8; a slightly smaller scale often
// serves the other 31 better. The first is what remains where squares overflow; it fits either
// sign.
constexpr int kTrials = 16;
HWY_ALIGN constexpr float kTrialFactors[kTrials] = {
    1 / 6.9f,  1 / 9.0f,  1 / 8.65f,  1 / 8.3f,  1 / 7.95f,  1 / 7.6f,  1 / 7.25f,  1 / 6.5f,
    -1 / 6.9f, -1 / 9.0f, -1 / 8.65f, -1 / 8.3f, -1 / 7.95f, -1 / 7.6f, -1 / 7.25f, -1 / 6.5f};

// Too small a scale has no reciprocal; its weights are as good as zero.
constexpr float kLeastScale = 0x1p-126f;

// The bits of the largest magnitude: those of an infinity or more where a weight is not finite.
HWY_INLINE uint32_t LargestMagnitude(const float* weights) {
  const Floats d;
  const hn::RebindToUnsigned<Floats> du;
  const auto magnitude_bits = hn::Set(du, 0x7fffffff);
  auto largest = hn::Zero(du);
  for (int64_t i = 0; i < kWeightGroup; i += hn::Lanes(d)) {
    largest = hn::Max(largest, hn::And(hn::BitCast(du, hn::LoadU(d, weights + i)), magnitude_bits));
  }
  return hn::GetLane(hn::MaxOfLanes(du, largest));
}

// To the nearest bfloat16, ties to even. `v` is finite.
template <class V>
HWY_INLINE V RoundedToBFloat16(V v) {
  const Floats d;
  const hn::RebindToUnsigned<Floats> du;
  const auto bits = hn::BitCast(du, v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7fff)));
  return hn::BitCast(d, hn::And(rounded, hn::Set(du, 0xffff0000)));
}

template <class V>
HWY_INLINE V Quotient(V weights, V inverse_scale, float lowest, float highest) {
  const Floats d;
  const auto scaled = hn::Mul(weights, inverse_scale);
  return hn::Round(hn::Min(hn::Max(scaled, hn::Set(d, lowest)), hn::Set(d, highest)));
}

HWY_INLINE void Quotients(const float* weights, float scale, float lowest, float highest,
                          float* quotients) {
  const Floats d;
  const auto inverse = hn::Set(d, 1 / scale);
  for (int64_t i = 0; i < kWeightGroup; i += hn::Lanes(d)) {
    hn::Store(Quotient(hn::LoadU(d, weights + i), inverse, lowest, highest), d, quotients + i);
  }
}

// terms[0] + terms[8] + ..., terms[1] + terms[9] + ..., added pairwise.
HWY_INLINE float SumOf(const float* terms) {
  HWY_ALIGN float sums[8] = {};
  for (int64_t i = 0; i < kWeightGroup; i += 8) {
    for (int64_t lane = 0; lane < 8; ++lane) sums[lane] += terms[i + lane];
  }
  return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

HWY_INLINE float SquaredError(const float* weights, float scale, const float* quotients) {
  HWY_ALIGN float terms[kWeightGroup];
  const Floats d;
  for (int64_t i = 0; i < kWeightGroup; i += hn::Lanes(d)) {
    const auto error =
        hn::Sub(hn::LoadU(d, weights + i), hn::Mul(hn::Set(d, scale), hn::Load(d, quotients + i)));
    hn::Store(hn::Mul(error, error), d, terms + i);
  }
  return SumOf(terms);
}

// The scale with which these quotients come nearest to the weights; 0 where all are zero.
HWY_INLINE float LeastSquaresScale(const float* weights, const float* quotients) {
  HWY_ALIGN float products[kWeightGroup];
  HWY_ALIGN float squares[kWeightGroup];
  const Floats d;
  for (int64_t i = 0; i < kWeightGroup; i += hn::Lanes(d)) {
    const auto quotient = hn::Load(d, quotients + i);
    hn::Store(hn::Mul(hn::LoadU(d, weights + i), quotient), d, products + i);
    hn::Store(hn::Mul(quotient, quotient), d, squares + i);
  }
  const float denominator = SumOf(squares);
  return denominator > 0 ? SumOf(products) / denominator : 0;
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

// The best of the trials, each of which has a lane. Without one that is large enough: 0.
HWY_INLINE float BestTrial(const float* weights, float largest) {
  HWY_ALIGN float scales[kTrials];
  HWY_ALIGN float errors[kTrials];
  const Floats d;
  for (int64_t trial = 0; trial < kTrials; trial += hn::Lanes(d)) {
    const auto scale =
        RoundedToBFloat16(hn::Mul(hn::Set(d, largest), hn::Load(d, kTrialFactors + trial)));
    const auto inverse = hn::Div(hn::Set(d, 1.0f), scale);
    auto sum = hn::Zero(d);
    for (int64_t i = 0; i < kWeightGroup; ++i) {
      const auto weight = hn::Set(d, weights[i]);
      const auto error = hn::Sub(weight, hn::Mul(scale, Quotient(weight, inverse, -8, 7)));
      sum = hn::Add(sum, hn::Mul(error, error));
    }
    hn::Store(scale, d, scales + trial);
    hn::Store(sum, d, errors + trial);
  }
  const int best = IndexOfLeast(errors);
  return std::abs(scales[best]) < kLeastScale ? 0 : scales[best];
}

HWY_INLINE void StoreScale(float scale, std::byte* out) {
  const uint16_t bits = BFloat16FromFloat(scale);
  std::memcpy(out, &bits, sizeof(bits));
}

HWY_INLINE void EncodeGroupAsInt8(const float* weights, std::byte* out) {
  const uint32_t largest_bits = LargestMagnitude(weights);
  // The smallest bfloat16 with which the largest weight is at most 127.
  const float least = std::bit_cast<float>(largest_bits) / 127;
  float scale = FloatFromBFloat16(BFloat16FromFloat(least));
  if (scale < least) {
    scale = FloatFromBFloat16(static_cast<uint16_t>(BFloat16FromFloat(least) + 1));
  }
  std::byte* quotients = out + 2;
  std::memset(quotients, 0, kWeightGroup);
  if (largest_bits >= kInfinity) return StoreScale(NAN, out);
  if (scale < kLeastScale) return StoreScale(0, out);
  HWY_ALIGN float values[kWeightGroup];
  Quotients(weights, scale, -127, 127, values);
  for (int64_t i = 0; i < kWeightGroup; ++i) {
    quotients[i] = static_cast<std::byte>(static_cast<int32_t>(values[i]));
  }
  StoreScale(scale, out);
}

HWY_INLINE void EncodeGroupAsInt4(const float* weights, std::byte* out) {
  const uint32_t largest_bits = LargestMagnitude(weights);
  std::byte* pairs = out + 2;
  std::memset(pairs, 0x88, kWeightGroup / 2);
  if (largest_bits >= kInfinity) return StoreScale(NAN, out);
  float scale = BestTrial(weights, std::bit_cast<float>(largest_bits));
  if (scale == 0) return StoreScale(0, out);
  HWY_ALIGN float quotients[kWeightGroup];
  Quotients(weights, scale, -8, 7, quotients);
  const float refined = FloatFromBFloat16(BFloat16FromFloat(LeastSquaresScale(weights, quotients)));
  if (std::abs(refined) >= kLeastScale && std::isfinite(refined)) {
    HWY_ALIGN float others[kWeightGroup];
    Quotients(weights, refined, -8, 7, others);
    if (SquaredError(weights, refined, others) < SquaredError(weights, scale, quotients)) {
      scale = refined;
      std::copy_n(others, kWeightGroup, quotients);
    }
  }
  for (int64_t i = 0; i < kWeightGroup / 2; ++i) {
    const int32_t low = static_cast<int32_t>(quotients[2 * i]) + 8;
    const int32_t high = static_cast<int32_t>(quotients[2 * i + 1]) + 8;
    pairs[i] = static_cast<std::byte>(low | high << 4);
  }
  StoreScale(scale, out);
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

void EncodeInt8(const float* row, int64_t num_groups, std::byte* out) {
  for (int64_t group = 0; group < num_groups; ++group) {
    EncodeGroupAsInt8(row + group * kWeightGroup,
                      out + group * RowBytes(WeightFormat::kInt8, kWeightGroup));
  }
}

void EncodeInt4(const float* row, int64_t num_groups, std::byte* out) {
  for (int64_t group = 0; group < num_groups; ++group) {
    EncodeGroupAsInt4(row + group * kWeightGroup,
                      out + group * RowBytes(WeightFormat::kInt4, kWeightGroup));
  }
}

void EncodeFp8(const float* row, int64_t num_groups, std::byte* out) {
  for (int64_t group = 0; group < num_groups; ++group) {
    EncodeGroupAsFp8(row + group * kWeightGroup,
                     out + group * RowBytes(WeightFormat::kFp8, kWeightGroup));
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace sluice
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice {
namespace {

HWY_EXPORT(EncodeInt8);
HWY_EXPORT(EncodeInt4);
HWY_EXPORT(EncodeFp8);

// Number i of a group, whose first byte behind the scale is *bytes.
float QuotientOf(WeightFormat format, const std::byte* bytes, int64_t i) {
  if (format == WeightFormat::kFp8) return FloatFromFp8(static_cast<uint8_t>(bytes[i]));
  if (format == WeightFormat::kInt8) return static_cast<int8_t>(bytes[i]);
  return static_cast<float>((static_cast<int>(bytes[i / 2]) >> (i % 2 * 4) & 15) - 8);
}

void DecodeGroup(WeightFormat format, const std::byte* bytes, float* weights) {
  uint16_t bits;
  std::memcpy(&bits, bytes, sizeof(bits));
  const float scale = FloatFromBFloat16(bits);
  bytes += sizeof(bits);
  for (int64_t i = 0; i < kWeightGroup; ++i) weights[i] = scale * QuotientOf(format, bytes, i);
}

}  // namespace

void EncodeRow(WeightFormat format, absl::Span<const float> row, absl::Span<std::byte> out) {
  const auto num_inputs = static_cast<int64_t>(row.size());
  SLUICE_CHECK(out.size() == RowBytes(format, num_inputs));
  if (format == WeightFormat::kF32) {
    std::memcpy(out.data(), row.data(), out.size());
  } else if (format == WeightFormat::kBF16) {
    auto* to = reinterpret_cast<uint16_t*>(out.data());
    std::transform(row.begin(), row.end(), to, BFloat16FromFloat);
  } else {
    SLUICE_CHECK(num_inputs % kWeightGroup == 0);
    const int64_t num_groups = num_inputs / kWeightGroup;
    if (format == WeightFormat::kInt8) {
      HWY_DYNAMIC_DISPATCH(EncodeInt8)(row.data(), num_groups, out.data());
    } else if (format == WeightFormat::kFp8) {
      HWY_DYNAMIC_DISPATCH(EncodeFp8)(row.data(), num_groups, out.data());
    } else {
      HWY_DYNAMIC_DISPATCH(EncodeInt4)(row.data(), num_groups, out.data());
    }
  }
}

void DecodeRow(WeightFormat format, absl::Span<const std::byte> bytes, absl::Span<float> row) {
  const auto num_inputs = static_cast<int64_t>(row.size());
  SLUICE_CHECK(bytes.size() == RowBytes(format, num_inputs));
  if (format == WeightFormat::kF32) {
    std::memcpy(row.data(), bytes.data(), bytes.size());
  } else if (format == WeightFormat::kBF16) {
    const auto* from = reinterpret_cast<const uint16_t*>(bytes.data());
    std::transform(from, from + num_inputs, row.begin(), FloatFromBFloat16);
  } else {
    SLUICE_CHECK(num_inputs % kWeightGroup == 0);
    const size_t group_bytes = RowBytes(format, kWeightGroup);
    for (int64_t group = 0; group < num_inputs / kWeightGroup; ++group) {
      DecodeGroup(format, bytes.data() + group * group_bytes, row.data() + group * kWeightGroup);
    }
  }
}

}  // namespace sluice
#endif  // HWY_ONCE
