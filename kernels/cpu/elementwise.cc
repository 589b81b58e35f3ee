#include "kernels/cpu/elementwise.h"

#include "kernels/check.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/elementwise.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/simd-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace sluice {
namespace HWY_NAMESPACE {
namespace {

void AddBiasRows(CpuContext& context, const float* bias, MatrixView x) {
  ForRowRuns(context, x.rows, x.cols, [&](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t t = begin; t < end; ++t) {
      float* row = x.Row(t);
      ForEachVector(x.cols, [=](auto d, int64_t i) HWY_ATTR {
        hn::StoreU(hn::Add(hn::LoadU(d, row + i), hn::LoadU(d, bias + i)), d, row + i);
      });
    }
  });
}

// Row t times factors[t * stride].
void ScaleEveryRow(CpuContext& context, const float* factors, int64_t stride, MatrixView x) {
  ForRowRuns(context, x.rows, x.cols, [&](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t t = begin; t < end; ++t) {
      float* row = x.Row(t);
      const float factor = factors[t * stride];
      ForEachVector(x.cols, [=](auto d, int64_t i) HWY_ATTR {
        hn::StoreU(hn::Mul(hn::LoadU(d, row + i), hn::Set(d, factor)), d, row + i);
      });
    }
  });
}

void CapRows(CpuContext& context, float cap, MatrixView x) {
  ForRowRuns(context, x.rows, x.cols, [&](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t t = begin; t < end; ++t) {
      float* row = x.Row(t);
      ForEachVector(x.cols, [=](auto d, int64_t i) HWY_ATTR {
        hn::StoreU(SoftCapped(d, hn::LoadU(d, row + i), cap), d, row + i);
      });
    }
  });
}

void AddRows(CpuContext& context, MatrixView x, MatrixView residual) {
  ForRowRuns(context, x.rows, x.cols, [&](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t t = begin; t < end; ++t) {
      const float* from = x.Row(t);
      float* to = residual.Row(t);
      ForEachVector(x.cols, [=](auto d, int64_t i) HWY_ATTR {
        hn::StoreU(hn::Add(hn::LoadU(d, to + i), hn::LoadU(d, from + i)), d, to + i);
      });
    }
  });
}

template <class D>
hn::Vec<D> TreeSum(D d, const MatrixView* partials, size_t count, int64_t row, int64_t column) {
  if (count == 1) return hn::LoadU(d, partials->Row(row) + column);
  const size_t half = count / 2;
  return hn::Add(TreeSum(d, partials, half, row, column),
                 TreeSum(d, partials + half, half, row, column));
}

void TreeAddRows(CpuContext& context, absl::Span<const MatrixView> partials, MatrixView out) {
  const auto count = static_cast<int64_t>(partials.size());
  ForRowRuns(context, out.rows, count * out.cols, [&](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t t = begin; t < end; ++t) {
      ForEachVector(out.cols, [&](auto d, int64_t i) HWY_ATTR {
        hn::StoreU(TreeSum(d, partials.data(), partials.size(), t, i), d, out.Row(t) + i);
      });
    }
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace sluice
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice {

HWY_EXPORT(AddBiasRows);
HWY_EXPORT(ScaleEveryRow);
HWY_EXPORT(CapRows);
HWY_EXPORT(AddRows);
HWY_EXPORT(TreeAddRows);

void AddBias(CpuContext& context, const float* bias, MatrixView x) {
  HWY_DYNAMIC_DISPATCH(AddBiasRows)(context, bias, x);
}

void Scale(CpuContext& context, float factor, MatrixView x) {
  HWY_DYNAMIC_DISPATCH(ScaleEveryRow)(context, &factor, 0, x);
}

void ScaleRows(CpuContext& context, const float* factors, MatrixView x) {
  HWY_DYNAMIC_DISPATCH(ScaleEveryRow)(context, factors, 1, x);
}

void SoftCap(CpuContext& context, float cap, MatrixView x) {
  SLUICE_CHECK(cap > 0);
  HWY_DYNAMIC_DISPATCH(CapRows)(context, cap, x);
}

void AddResidual(CpuContext& context, MatrixView x, MatrixView residual) {
  SLUICE_CHECK(x.rows == residual.rows && x.cols == residual.cols);
  HWY_DYNAMIC_DISPATCH(AddRows)(context, x, residual);
}

void TreeAdd(CpuContext& context, absl::Span<const MatrixView> partials, MatrixView out) {
  SLUICE_CHECK(!partials.empty() && (partials.size() & (partials.size() - 1)) == 0);
  for (const MatrixView& partial : partials) {
    SLUICE_CHECK(partial.rows == out.rows && partial.cols == out.cols);
  }
  HWY_DYNAMIC_DISPATCH(TreeAddRows)(context, partials, out);
}

}  // namespace sluice
#endif  // HWY_ONCE
