// Loops and functions over vectors, for the kernels of this folder. Included once per SIMD target
// (hwy/foreach_target.h), always after hwy/highway.h.
//
// A vector holds at most 16 floats, so that packed layouts padded to 16 suit every target.
#if defined(SLUICE_KERNELS_CPU_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_KERNELS_CPU_SIMD_INL_H_
#undef SLUICE_KERNELS_CPU_SIMD_INL_H_
#else
#define SLUICE_KERNELS_CPU_SIMD_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace sluice {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr int64_t kMaxFloatLanes = 16;
using FloatTag = hn::CappedTag<float, kMaxFloatLanes>;
using OneFloatTag = hn::CappedTag<float, 1>;

// Loads floats, or widens bfloat16 to float, exactly. `from` need not be aligned.
template <class D>
HWY_INLINE hn::Vec<D> LoadWide(D d, const float* HWY_RESTRICT from) {
  return hn::LoadU(d, from);
}
template <class D>
HWY_INLINE hn::Vec<D> LoadWide(D d, const uint16_t* HWY_RESTRICT from) {
  const hn::Rebind<uint16_t, D> d16;
  const hn::RebindToUnsigned<D> d32;
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(d32, hn::LoadU(d16, from))));
}

// Calls f(d, i) for vectors of elements i, i + 1, ... that cover [0, n): whole ones first, then one
// element at a time.
template <class F>
HWY_INLINE void ForEachVector(int64_t n, F f) {
  const FloatTag d;
  const int64_t lanes = hn::Lanes(d);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) f(d, i);
  for (; i < n; ++i) f(OneFloatTag(), i);
}

// The sum of sixteen floats in vectors, joined pairwise: element i with element i + 8, and so on.
// The same on every target.
HWY_INLINE float SumOfSixteen(const hn::Vec<FloatTag>* HWY_RESTRICT vectors) {
  const FloatTag d;
  const int64_t lanes = hn::Lanes(d);
  HWY_ALIGN float sums[kMaxFloatLanes];
  for (int64_t i = 0; i < kMaxFloatLanes; i += lanes) hn::Store(vectors[i / lanes], d, sums + i);
  for (int64_t half = kMaxFloatLanes / 2; half > 0; half /= 2) {
    for (int64_t lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
  }
  return sums[0];
}

// The sum over [0, n) of the elements of vectors f(d, i), in an order that depends on n alone, not
// on the width of a vector: sixteen running sums, element i going to sum i % 16, are joined
// pairwise after every 4096 elements and added up in double.
template <class F>
HWY_INLINE double FixedOrderSum(int64_t n, F f) {
  constexpr int64_t kRun = 4096;
  constexpr int kVectors = kMaxFloatLanes / hn::MaxLanes(FloatTag());
  const FloatTag d;
  const int64_t lanes = hn::Lanes(d);
  HWY_ALIGN float sums[kMaxFloatLanes];
  double total = 0;
  for (int64_t begin = 0; begin < n; begin += kRun) {
    const int64_t end = std::min(n, begin + kRun);
    hn::Vec<FloatTag> running[kVectors];
    for (auto& vector : running) vector = hn::Zero(d);
    int64_t i = begin;
    for (; i + kMaxFloatLanes <= end; i += kMaxFloatLanes) {
      for (int v = 0; v < kVectors; ++v) running[v] = hn::Add(running[v], f(d, i + v * lanes));
    }
    for (int v = 0; v < kVectors; ++v) hn::Store(running[v], d, sums + v * lanes);
    for (int lane = 0; i < end; ++i, ++lane) sums[lane] += hn::GetLane(f(OneFloatTag(), i));
    for (int half = kMaxFloatLanes / 2; half > 0; half /= 2) {
      for (int lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
    }
    total += sums[0];
  }
  return total;
}

// The largest of n >= 1 floats.
HWY_INLINE float Maximum(const float* HWY_RESTRICT x, int64_t n) {
  const FloatTag d;
  const int64_t lanes = hn::Lanes(d);
  hn::Vec<FloatTag> largest = hn::Set(d, x[0]);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) largest = hn::Max(largest, hn::LoadU(d, x + i));
  float result = hn::GetLane(hn::MaxOfLanes(d, largest));
  for (; i < n; ++i) result = std::max(result, x[i]);
  return result;
}

// exp(x) to about one unit in the last place: 0 below -104, infinity above 88.73, NaN of NaN.
// x = n ln 2 + r with |r| <= (ln 2) / 2, where seven terms of the series leave an error of 5e-9.
template <class D>
HWY_INLINE hn::Vec<D> Exp(D d, hn::Vec<D> x) {
  using V = hn::Vec<D>;
  const hn::RebindToSigned<D> di;
  const V bounded = hn::Min(hn::Max(x, hn::Set(d, -104.0f)), hn::Set(d, 89.0f));
  const V n = hn::Round(hn::Mul(bounded, hn::Set(d, 1.44269504f)));
  // ln 2 in two parts; the product with the first is exact.
  V r = hn::Sub(bounded, hn::Mul(n, hn::Set(d, 0.693359375f)));
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r);
  V series = hn::Set(d, 1.0f / 5040);
  series = hn::MulAdd(series, r, hn::Set(d, 1.0f / 720));
  series = hn::MulAdd(series, r, hn::Set(d, 1.0f / 120));
  series = hn::MulAdd(series, r, hn::Set(d, 1.0f / 24));
  series = hn::MulAdd(series, r, hn::Set(d, 1.0f / 6));
  series = hn::MulAdd(series, r, hn::Set(d, 0.5f));
  series = hn::MulAdd(series, r, hn::Set(d, 1.0f));
  series = hn::MulAdd(series, r, hn::Set(d, 1.0f));
  // 2^n in two factors, because n reaches 128 and, for subnormal results, -150.
  const auto exponent = hn::ConvertTo(di, n);
  const auto half = hn::ShiftRight<1>(exponent);
  const auto power = [&](auto e) HWY_ATTR {
    return hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(e, hn::Set(di, 127))));
  };
  const V result = hn::Mul(hn::Mul(series, power(half)), power(hn::Sub(exponent, half)));
  return hn::IfThenElse(hn::Eq(x, x), result, x);
}

}  // namespace HWY_NAMESPACE
}  // namespace sluice
HWY_AFTER_NAMESPACE();

#endif  // SLUICE_KERNELS_CPU_SIMD_INL_H_
