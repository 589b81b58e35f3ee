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

void HeadRmsNormRows(CpuContext& context, MatrixView x, int head_dim, const float* weight,
                     float eps) {
  ForRowRuns(context, x.rows, x.cols, [&](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t t = begin; t < end; ++t) {
      for (float* head = x.Row(t); head != x.Row(t) + x.cols; head += head_dim) {
        RmsNormRow(head, weight, eps, head_dim, head);
      }
    }
  });
}

void LayerNormRow(const float* x, const float* weight, const float* bias, float eps, int64_t size,
                  float* out) {
  const double sum =
      FixedOrderSum(size, [x](auto d, int64_t i) HWY_ATTR { return hn::LoadU(d, x + i); });
  const float mean = static_cast<float>(sum / static_cast<double>(size));
  const double squares = FixedOrderSum(size, [=](auto d, int64_t i) HWY_ATTR {
    const auto v = hn::Sub(hn::LoadU(d, x + i), hn::Set(d, mean));
    return hn::Mul(v, v);
  });
  const float scale = static_cast<float>(1 / std::sqrt(squares / static_cast<double>(size) + eps));
  ForEachVector(size, [=](auto d, int64_t i) HWY_ATTR {
    const auto centred = hn::Sub(hn::LoadU(d, x + i), hn::Set(d, mean));
    auto y = hn::Mul(hn::Mul(centred, hn::Set(d, scale)), hn::LoadU(d, weight + i));
    if (bias != nullptr) y = hn::Add(y, hn::LoadU(d, bias + i));
    hn::StoreU(y, d, out + i);
  });
}

void LayerNormRows(CpuContext& context, MatrixView x, const float* weight, const float* bias,
                   float eps, MatrixView out) {
  ForRowRuns(context, x.rows, 2 * x.cols, [&](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t t = begin; t < end; ++t) {
      LayerNormRow(x.Row(t), weight, bias, eps, x.cols, out.Row(t));
    }
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace sluice
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice {

HWY_EXPORT(RmsNormRows);
HWY_EXPORT(HeadRmsNormRows);
HWY_EXPORT(LayerNormRows);

void RmsNorm(CpuContext& context, MatrixView x, const float* weight, float eps, MatrixView out) {
  SLUICE_CHECK(x.rows == out.rows && x.cols == out.cols);
  HWY_DYNAMIC_DISPATCH(RmsNormRows)(context, x, weight, eps, out);
}

void HeadRmsNorm(CpuContext& context, MatrixView x, int head_dim, const float* weight, float eps) {
  SLUICE_CHECK(head_dim > 0 && x.cols % head_dim == 0);
  HWY_DYNAMIC_DISPATCH(HeadRmsNormRows)(context, x, head_dim, weight, eps);
}

void LayerNorm(CpuContext& context, MatrixView x, const float* weight, const float* bias, float eps,
               MatrixView out) {
  SLUICE_CHECK(x.rows == out.rows && x.cols == out.cols);
  HWY_DYNAMIC_DISPATCH(LayerNormRows)(context, x, weight, bias, eps, out);
}

}  // namespace sluice
#endif  // HWY_ONCE
