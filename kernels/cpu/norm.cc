#include "kernels/cpu/norm.h"

#include <cmath>

#include "kernels/check.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/norm.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/simd-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace sluice {
namespace HWY_NAMESPACE {
namespace {

void RmsNormRow(const float* x, const float* weight, float eps, int64_t size, float* out) {
  const double squares = FixedOrderSum(size, [x](auto d, int64_t i) HWY_ATTR {
    const auto v = hn::LoadU(d, x + i);
    return hn::Mul(v, v);
  });
  const double mean = squares / static_cast<double>(size);
  const float scale = static_cast<float>(1 / std::sqrt(mean + eps));
  ForEachVector(size, [=](auto d, int64_t i) HWY_ATTR {
    const auto normalised = hn::Mul(hn::LoadU(d, x + i), hn::Set(d, scale));
    hn::StoreU(hn::Mul(normalised, hn::LoadU(d, weight + i)), d, out + i);
  });
}

void RmsNormRows(CpuContext& context, MatrixView x, const float* weight, float eps,
                 MatrixView out) {
  ForRowRuns(context, x.rows, x.cols, [&](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t t = begin; t < end; ++t) RmsNormRow(x.Row(t), weight, eps, x.cols, out.Row(t));
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace sluice
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice {

HWY_EXPORT(RmsNormRows);

void RmsNorm(CpuContext& context, MatrixView x, const float* weight, float eps, MatrixView out) {
  SLUICE_CHECK(x.rows == out.rows && x.cols == out.cols);
  HWY_DYNAMIC_DISPATCH(RmsNormRows)(context, x, weight, eps, out);
}

}  // namespace sluice
#endif  // HWY_ONCE
