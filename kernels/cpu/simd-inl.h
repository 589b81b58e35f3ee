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

// The numbers of FP8 codes (kernels/fp8.h), exactly, but 480 for that of no number.
template <class D>
HWY_INLINE hn::Vec<D> LoadWide(D d, const uint8_t* HWY_RESTRICT from) {
  const hn::Rebind<uint8_t, D> d8;
  const hn::RebindToUnsigned<D> d32;
  const auto code = hn::PromoteTo(d32, hn::LoadU(d8, from));
  const auto sign = hn::ShiftLeft<24>(hn::And(code, hn::Set(d32, 0x80)));
  const auto magnitude = hn::ShiftLeft<20>(hn::And(code, hn::Set(d32, 0x7f)));
  return hn::Mul(hn::BitCast(d, hn::Or(sign, magnitude)), hn::Set(d, 0x1p120f));
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

// The sum of a vector's elements: its halves are joined, and those of the result, until one is left.
#if HWY_TARGET == HWY_SCALAR
HWY_INLINE float SumOfHalves(FloatTag, hn::Vec<FloatTag> vector) { return hn::GetLane(vector); }
#else
template <class D>
HWY_INLINE float SumOfHalves(D d, hn::Vec<D> vector) {
  if constexpr (hn::MaxLanes(d) > 4) {
    const hn::Half<D> half;
    return SumOfHalves(half, hn::Add(hn::LowerHalf(half, vector), hn::UpperHalf(half, vector)));
  } else {
    const auto pairs = hn::Add(vector, hn::Shuffle1032(vector));
    return hn::GetLane(hn::Add(pairs, hn::Shuffle2301(pairs)));
  }
}
#endif

// The sum of sixteen floats in vectors, joined pairwise: element i with element i + 8, and so on.
// The same on every target.
HWY_INLINE float SumOfSixteen(const hn::Vec<FloatTag>* HWY_RESTRICT vectors) {
  constexpr int kVectors = kMaxFloatLanes / hn::MaxLanes(FloatTag());
  hn::Vec<FloatTag> sums[kVectors];
  for (int v = 0; v < kVectors; ++v) sums[v] = vectors[v];
  for (int half = kVectors / 2; half > 0; half /= 2) {
    for (int v = 0; v < half; ++v) sums[v] = hn::Add(sums[v], sums[v + half]);
  }
  return SumOfHalves(FloatTag(), sums[0]);
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
    if (i < end) {
      for (int v = 0; v < kVectors; ++v) hn::Store(running[v], d, sums + v * lanes);
      for (int lane = 0; i < end; ++i, ++lane) sums[lane] += hn::GetLane(f(OneFloatTag(), i));
      for (int v = 0; v < kVectors; ++v) running[v] = hn::Load(d, sums + v * lanes);
    }
    total += SumOfSixteen(running);
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

// x * 2^n for x about 1 and whole n in [-150, 128]: rounded once, where the result is subnormal.
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
HWY_INLINE hn::Vec512<float> TimesPowerOfTwo(hn::Vec512<float> x, hn::Vec512<float> n) {
  return hn::Vec512<float>{_mm512_scalef_ps(x.raw, n.raw)};
}
template <size_t kLanes>
HWY_INLINE hn::Vec128<float, kLanes> TimesPowerOfTwo(hn::Vec128<float, kLanes> x,
                                                     hn::Vec128<float, kLanes> n) {
  return hn::Vec128<float, kLanes>{_mm_scalef_ps(x.raw, n.raw)};
}
#else
template <class V>
HWY_INLINE V TimesPowerOfTwo(V x, V n) {
  const hn::DFromV<V> d;
  const hn::RebindToSigned<hn::DFromV<V> > di;
  // In two factors, because 2^n by itself may be too large or too small.
  const auto exponent = hn::ConvertTo(di, n);
  const auto half = hn::ShiftRight<1>(exponent);
  const auto power = [&](auto e) HWY_ATTR {
    return hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(e, hn::Set(di, 127))));
  };
  return hn::Mul(hn::Mul(x, power(half)), power(hn::Sub(exponent, half)));
}
#endif

// exp(x) to about one unit in the last place: 0 below -104, infinity above 88.73, NaN of NaN.
// x = n ln 2 + r with |r| <= (ln 2) / 2, where seven terms of the series leave an error of 5e-9.
template <class D>
HWY_INLINE hn::Vec<D> Exp(D d, hn::Vec<D> x) {
  using V = hn::Vec<D>;
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
  const V result = TimesPowerOfTwo(series, n);
  return hn::IfThenElse(hn::Eq(x, x), result, x);
}

// cap * tanh(x / cap) to about 1e-7 of cap. tanh(u) = 1 - 2 / (exp(2u) + 1).
template <class D>
HWY_INLINE hn::Vec<D> SoftCapped(D d, hn::Vec<D> x, float cap) {
  const auto limit = hn::Set(d, cap), one = hn::Set(d, 1.0f), two = hn::Set(d, 2.0f);
  const auto power = Exp(d, hn::Div(hn::Mul(x, two), limit));
  return hn::Mul(limit, hn::Sub(one, hn::Div(two, hn::Add(power, one))));
}

}  // namespace HWY_NAMESPACE
}  // namespace sluice
HWY_AFTER_NAMESPACE();

#endif  // SLUICE_KERNELS_CPU_SIMD_INL_H_
