#include "kernels/cpu/logit_passes.h"

#include <algorithm>
#include <cmath>

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/logit_passes.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/simd-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace sluice {
namespace HWY_NAMESPACE {
namespace {

constexpr int64_t kMaxDoubleLanes = 8;
using DoubleTag = hn::CappedTag<double, kMaxDoubleLanes>;
using OneDoubleTag = hn::CappedTag<double, 1>;
using IdTag = hn::Rebind<int32_t, FloatTag>;

template <class D>
HWY_INLINE hn::Vec<D> LoadAsDouble(D d, const float* x) {
  return hn::PromoteTo(d, hn::LoadU(hn::Rebind<float, D>(), x));
}

// exp(x) for x <= 0, without a fused operation, so that every target rounds alike: x = n ln 2 + r,
// |r| <= (ln 2) / 2, where fourteen terms of the series leave an error of 4e-18.
template <class D>
HWY_INLINE hn::Vec<D> ExpOfNegative(D d, hn::Vec<D> x) {
  const hn::RebindToUnsigned<D> bits;
  constexpr double kShift = 0x1.8p52;  // adding it leaves n in the low bits
  const auto shifted = hn::Add(hn::Mul(x, hn::Set(d, 0x1.71547652b82fep0)), hn::Set(d, kShift));
  const auto n = hn::Sub(shifted, hn::Set(d, kShift));
  // ln 2 in two parts; the product with the first is exact.
  auto r = hn::Sub(x, hn::Mul(n, hn::Set(d, 0x1.62e42fefa0000p-1)));
  r = hn::Sub(r, hn::Mul(n, hn::Set(d, 0x1.cf79abc9e3b3ap-40)));
  auto series = hn::Set(d, 1.0 / 6227020800);
  for (const double factorial : {479001600.0, 39916800.0, 3628800.0, 362880.0, 40320.0, 5040.0,
                                 720.0, 120.0, 24.0, 6.0, 2.0, 1.0, 1.0}) {
    series = hn::Add(hn::Mul(series, r), hn::Set(d, 1 / factorial));
  }
  const auto power = hn::BitCast(
      d, hn::Add(hn::ShiftLeft<52>(hn::BitCast(bits, shifted)), hn::BitCast(bits, hn::Set(d, 1))));
  return hn::IfThenElseZero(hn::Ge(x, hn::Set(d, -708.0)), hn::Mul(series, power));
}

// The logarithm of a weight.
template <class D>
HWY_INLINE hn::Vec<D> LogWeight(D d, const float* x, const WeightOf& weight) {
  const auto shifted = hn::Sub(LoadAsDouble(d, x), hn::Set(d, double{weight.largest}));
  return hn::Mul(shifted, hn::Set(d, weight.inverse_temperature));
}

// The sum over [begin, end) of f(d, i), element i going to sum i % 8, joined pairwise.
template <class F>
HWY_INLINE double RunSum(int64_t begin, int64_t end, F f) {
  constexpr int kVectors = kMaxDoubleLanes / hn::MaxLanes(DoubleTag());
  const DoubleTag d;
  const int64_t lanes = hn::Lanes(d);
  HWY_ALIGN double sums[kMaxDoubleLanes];
  hn::Vec<DoubleTag> running[kVectors];
  for (auto& vector : running) vector = hn::Zero(d);
  int64_t i = begin;
  for (; i + kMaxDoubleLanes <= end; i += kMaxDoubleLanes) {
    for (int v = 0; v < kVectors; ++v) running[v] = hn::Add(running[v], f(d, i + v * lanes));
  }
  for (int v = 0; v < kVectors; ++v) hn::Store(running[v], d, sums + v * lanes);
  for (int lane = 0; i < end; ++i, ++lane) sums[lane] += hn::GetLane(f(OneDoubleTag(), i));
  for (int half = kMaxDoubleLanes / 2; half > 0; half /= 2) {
    for (int lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
  }
  return sums[0];
}

template <class F>
HWY_INLINE double SumOfRuns(int64_t n, double* run_sums, F f) {
  double total = 0;
  for (int64_t begin = 0, run = 0; begin < n; begin += kWeightRun, ++run) {
    const double sum = RunSum(begin, std::min(n, begin + kWeightRun), f);
    if (run_sums != nullptr) run_sums[run] = sum;
    total += sum;
  }
  return total;
}

int64_t CopyAllowedPass(const float* x, int64_t n, const uint32_t* allowed, float* out) {
  const FloatTag d;
  const int64_t lanes = hn::Lanes(d);
  const auto limit = hn::Set(d, HUGE_VALF);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto values = hn::LoadU(d, x + i);
    if (!hn::AllTrue(d, hn::Lt(hn::Abs(values), limit))) break;
    hn::StoreU(values, d, out + i);
  }
  for (; i < n && std::isfinite(x[i]); ++i) out[i] = x[i];
  if (i < n || allowed == nullptr) return i;
  for (int64_t word = 0; word * 32 < n; ++word) {
    const uint32_t bits = allowed[word];
    if (bits == ~uint32_t{0}) continue;
    const int64_t end = std::min<int64_t>(n, word * 32 + 32);
    for (int64_t id = word * 32; id < end; ++id) {
      if ((bits >> (id % 32) & 1) == 0) out[id] = -HUGE_VALF;
    }
  }
  return n;
}

float LargestPass(const float* x, int64_t n) { return Maximum(x, n); }

int64_t FirstEqualPass(const float* x, int64_t n, float value) {
  const FloatTag d;
  const int64_t lanes = hn::Lanes(d);
  const auto wanted = hn::Set(d, value);
  int64_t i = 0;
  while (i + lanes <= n && hn::AllFalse(d, hn::Eq(hn::LoadU(d, x + i), wanted))) i += lanes;
  while (i < n && x[i] != value) ++i;
  return i;
}

size_t GatherPass(const float* x, int64_t n, float threshold, int32_t* ids, float* values) {
  const FloatTag d;
  const IdTag di;
  const int64_t lanes = hn::Lanes(d);
  const auto least = hn::Set(d, threshold);
  size_t count = 0;
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto row = hn::LoadU(d, x + i);
    const auto kept = hn::Ge(row, least);
    if (hn::AllFalse(d, kept)) continue;
    // Whole vectors: some processors take very long to store a part of one.
    const auto row_ids = hn::Iota(di, static_cast<int32_t>(i));
    hn::StoreU(hn::Compress(row, kept), d, values + count);
    hn::StoreU(hn::Compress(row_ids, hn::RebindMask(di, kept)), di, ids + count);
    count += hn::CountTrue(d, kept);
  }
  for (; i < n; ++i) {
    if (!(x[i] >= threshold)) continue;
    values[count] = x[i];
    ids[count++] = static_cast<int32_t>(i);
  }
  return count;
}

void WeightsPass(const float* x, int64_t n, WeightOf weight, double* out) {
  const DoubleTag d;
  const int64_t lanes = hn::Lanes(d);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(ExpOfNegative(d, LogWeight(d, x + i, weight)), d, out + i);
  }
  const OneDoubleTag one;
  for (; i < n; ++i) hn::StoreU(ExpOfNegative(one, LogWeight(one, x + i, weight)), one, out + i);
}

double WeightSumsPass(const float* x, int64_t n, WeightOf weight, double* run_sums) {
  return SumOfRuns(n, run_sums, [&](auto d, int64_t i) HWY_ATTR {
    return ExpOfNegative(d, LogWeight(d, x + i, weight));
  });
}

double WeightedLogSumPass(const float* x, int64_t n, WeightOf weight) {
  return SumOfRuns(n, nullptr, [&](auto d, int64_t i) HWY_ATTR {
    const auto log_weight = LogWeight(d, x + i, weight);
    const auto product = hn::Mul(ExpOfNegative(d, log_weight), log_weight);
    // Of -infinity there is no product.
    return hn::IfThenElseZero(hn::Ge(log_weight, hn::Set(d, -708.0)), product);
  });
}

Moment MomentPass(const float* x, int64_t n, double origin, int power) {
  Moment moment;
  const auto of_finite = [&](auto d, int64_t i, auto f) HWY_ATTR {
    const auto value = LoadAsDouble(d, x + i);
    return hn::IfThenElseZero(hn::Gt(value, hn::Set(d, -HUGE_VAL)), f(d, value));
  };
  moment.count = static_cast<int64_t>(SumOfRuns(n, nullptr, [&](auto d, int64_t i) HWY_ATTR {
    return of_finite(d, i, [](auto d1, auto) HWY_ATTR { return hn::Set(d1, 1); });
  }));
  moment.sum = SumOfRuns(n, nullptr, [&](auto d, int64_t i) HWY_ATTR {
    return of_finite(d, i, [&](auto d1, auto value) HWY_ATTR {
      const auto distance = hn::Sub(value, hn::Set(d1, origin));
      return power == 1 ? distance : hn::Mul(distance, distance);
    });
  });
  return moment;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace sluice
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice {

HWY_EXPORT(CopyAllowedPass);
HWY_EXPORT(LargestPass);
HWY_EXPORT(FirstEqualPass);
HWY_EXPORT(GatherPass);
HWY_EXPORT(WeightsPass);
HWY_EXPORT(WeightSumsPass);
HWY_EXPORT(WeightedLogSumPass);
HWY_EXPORT(MomentPass);

int64_t CopyAllowed(const float* x, int64_t n, const uint32_t* allowed, float* out) {
  return HWY_DYNAMIC_DISPATCH(CopyAllowedPass)(x, n, allowed, out);
}

float LargestLogit(const float* x, int64_t n) { return HWY_DYNAMIC_DISPATCH(LargestPass)(x, n); }

int64_t FirstEqual(const float* x, int64_t n, float value) {
  return HWY_DYNAMIC_DISPATCH(FirstEqualPass)(x, n, value);
}

size_t GatherAtLeast(const float* x, int64_t n, float threshold, int32_t* ids, float* values) {
  return HWY_DYNAMIC_DISPATCH(GatherPass)(x, n, threshold, ids, values);
}

void Weights(const float* x, int64_t n, WeightOf weight, double* out) {
  HWY_DYNAMIC_DISPATCH(WeightsPass)(x, n, weight, out);
}

double WeightSums(const float* x, int64_t n, WeightOf weight, double* run_sums) {
  return HWY_DYNAMIC_DISPATCH(WeightSumsPass)(x, n, weight, run_sums);
}

double WeightedLogSum(const float* x, int64_t n, WeightOf weight) {
  return HWY_DYNAMIC_DISPATCH(WeightedLogSumPass)(x, n, weight);
}

Moment MomentOf(const float* x, int64_t n, double origin, int power) {
  return HWY_DYNAMIC_DISPATCH(MomentPass)(x, n, origin, power);
}

}  // namespace sluice
#endif  // HWY_ONCE
