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

double SquaresOf(const float* x, int64_t size) {
  return FixedOrderSum(size, [x](auto d, int64_t i) HWY_ATTR {
    const auto v = hn::LoadU(d, x + i);
    return hn::Mul(v, v);
  });
}

// out = x / sqrt(mean + eps) * weight.
void ScaleByMean(const float* x, const float* weight, double mean, float eps, int64_t size,
                 float* out) {
  const float scale = static_cast<float>(1 / std::sqrt(mean + eps));
  ForEachVector(size, [=](auto d, int64_t i) HWY_ATTR {
    const auto normalised = hn::Mul(hn::LoadU(d, x + i), hn::Set(d, scale));
    hn::StoreU(hn::Mul(normalised, hn::LoadU(d, weight + i)), d, out + i);
  });
}

void RmsNormRow(const float* x, const float* weight, float eps, int64_t size, float* out) {
  const double mean = SquaresOf(x, size) / static_cast<double>(size);
  ScaleByMean(x, weight, mean, eps, size, out);
}

void RmsNormRows(CpuContext& context, MatrixView x, const float* weight, float eps,
                 MatrixView out) {
  ForRowRuns(context, x.rows, x.cols, [&](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t t = begin; t < end; ++t) RmsNormRow(x.Row(t), weight, eps, x.cols, out.Row(t));
  });
}

float TreeOfSquares(const float* x, int64_t slice, int count) {
  if (count == 1) return static_cast<float>(SquaresOf(x, slice));
  const int half = count / 2;
  return TreeOfSquares(x, slice, half) + TreeOfSquares(x + half * slice, slice, half);
}

void SumSquaresOfRows(CpuContext& context, MatrixView x, int num_slices, MatrixView out) {
  ForRowRuns(context, x.rows, x.cols, [&](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t t = begin; t < end; ++t) {
      *out.Row(t) = TreeOfSquares(x.Row(t), x.cols / num_slices, num_slices);
    }
  });
}

void RmsNormPartRows(CpuContext& context, MatrixView x, MatrixView squares, int64_t count,
                     const float* weight, float eps) {
  ForRowRuns(context, x.rows, x.cols, [&](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t t = begin; t < end; ++t) {
      const double mean = double{*squares.Row(t)} / static_cast<double>(count);
      ScaleByMean(x.Row(t), weight, mean, eps, x.cols, x.Row(t));
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

void NormHeadsOfRows(CpuContext& context, MatrixView x, const HeadNorm& norm) {
  const int64_t size = norm.head_dim, stride = norm.by_head ? size : 0;
  ForRowRuns(context, x.rows, x.cols, [&](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t t = begin; t < end; ++t) {
      const float* weight = norm.weight;
      for (float* head = x.Row(t); head != x.Row(t) + x.cols; head += size, weight += stride) {
        if (norm.centred) {
          LayerNormRow(head, weight, norm.bias, norm.eps, size, head);
        } else {
          RmsNormRow(head, weight, norm.eps, size, head);
        }
      }
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
HWY_EXPORT(NormHeadsOfRows);
HWY_EXPORT(SumSquaresOfRows);
HWY_EXPORT(RmsNormPartRows);
HWY_EXPORT(LayerNormRows);

void RmsNorm(CpuContext& context, MatrixView x, const float* weight, float eps, MatrixView out) {
  SLUICE_CHECK(x.rows == out.rows && x.cols == out.cols);
  HWY_DYNAMIC_DISPATCH(RmsNormRows)(context, x, weight, eps, out);
}

void NormHeads(CpuContext& context, MatrixView x, const HeadNorm& norm) {
  SLUICE_CHECK(norm.head_dim > 0 && x.cols % norm.head_dim == 0);
  HWY_DYNAMIC_DISPATCH(NormHeadsOfRows)(context, x, norm);
}

void SumSquares(CpuContext& context, MatrixView x, int num_slices, MatrixView out) {
  SLUICE_CHECK(num_slices >= 1 && (num_slices & (num_slices - 1)) == 0);
  SLUICE_CHECK(x.cols % num_slices == 0 && x.rows == out.rows && out.cols == 1);
  HWY_DYNAMIC_DISPATCH(SumSquaresOfRows)(context, x, num_slices, out);
}

void RmsNormOfPart(CpuContext& context, MatrixView x, MatrixView squares, int64_t count,
                   const float* weight, float eps) {
  SLUICE_CHECK(x.rows == squares.rows && squares.cols == 1 && count >= x.cols);
  HWY_DYNAMIC_DISPATCH(RmsNormPartRows)(context, x, squares, count, weight, eps);
}

void LayerNorm(CpuContext& context, MatrixView x, const float* weight, const float* bias, float eps,
               MatrixView out) {
  SLUICE_CHECK(x.rows == out.rows && x.cols == out.cols);
  HWY_DYNAMIC_DISPATCH(LayerNormRows)(context, x, weight, bias, eps, out);
}

}  // namespace sluice
#endif  // HWY_ONCE
