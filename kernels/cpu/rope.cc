#include "kernels/cpu/rope.h"

#include <algorithm>

#include "kernels/check.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/rope.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/simd-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace sluice {
namespace HWY_NAMESPACE {
namespace {

void RotateHalves(float* head, const float* cos, const float* sin, int64_t pairs) {
  ForEachVector(pairs, [=](auto d, int64_t i) HWY_ATTR {
    const auto a = hn::LoadU(d, head + i);
    const auto b = hn::LoadU(d, head + pairs + i);
    const auto c = hn::LoadU(d, cos + i);
    const auto s = hn::LoadU(d, sin + i);
    hn::StoreU(hn::Sub(hn::Mul(a, c), hn::Mul(b, s)), d, head + i);
    hn::StoreU(hn::Add(hn::Mul(b, c), hn::Mul(a, s)), d, head + pairs + i);
  });
}

void RotateNeighbours(float* head, const float* cos, const float* sin, int64_t pairs) {
  ForEachVector(pairs, [=](auto d, int64_t i) HWY_ATTR {
    hn::Vec<decltype(d)> a, b;
    hn::LoadInterleaved2(d, head + 2 * i, a, b);
    const auto c = hn::LoadU(d, cos + i);
    const auto s = hn::LoadU(d, sin + i);
    hn::StoreInterleaved2(hn::Sub(hn::Mul(a, c), hn::Mul(b, s)),
                          hn::Add(hn::Mul(b, c), hn::Mul(a, s)), d, head + 2 * i);
  });
}

void RopeRows(CpuContext& context, MatrixView x, int head_dim, const RopeTables& tables,
              RopeLayout layout) {
  const auto rotate = layout == RopeLayout::kHalfSplit ? RotateHalves : RotateNeighbours;
  ForRowRuns(context, x.rows, x.cols, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t row = context.step.RopeRow(tables, t);
      for (int64_t h = 0; h < x.cols; h += head_dim) {
        rotate(x.Row(t) + h, tables.cos.Row(row), tables.sin.Row(row), tables.cos.cols);
      }
    }
  });
}

void RopeHeadRows(CpuContext& context, MatrixView x, const HeadLayout& from, MatrixView out,
                  const HeadLayout& to, const RopeTables& tables, RopeLayout layout) {
  const auto rotate = layout == RopeLayout::kHalfSplit ? RotateHalves : RotateNeighbours;
  const int64_t pairs = tables.cos.cols, size = from.step - from.first;
  ForRowRuns(context, x.rows, from.count * size, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t row = context.step.RopeRow(tables, t);
      for (int64_t h = 0; h < from.count; ++h) {
        const float* const source = x.Row(t) + h * from.step + from.first;
        float* const head = out.Row(t) + h * to.step + to.first;
        if (head != source) std::copy_n(source, size, head);
        rotate(head, tables.cos.Row(row), tables.sin.Row(row), pairs);
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

HWY_EXPORT(RopeRows);
HWY_EXPORT(RopeHeadRows);

void Rope(CpuContext& context, MatrixView x, int head_dim, const RopeTables& tables,
          RopeLayout layout) {
  context.step.CheckRope(x, head_dim, tables);
  HWY_DYNAMIC_DISPATCH(RopeRows)(context, x, head_dim, tables, layout);
}

void RopeHeads(CpuContext& context, MatrixView x, const HeadLayout& from, MatrixView out,
               const HeadLayout& to, const RopeTables& tables, RopeLayout layout) {
  SLUICE_CHECK(from.count == to.count && from.step - from.first == to.step - to.first);
  SLUICE_CHECK(x.rows == out.rows && x.cols == from.count * from.step);
  context.step.CheckRope(x.Columns(from.first, from.step - from.first),
                         static_cast<int>(from.step - from.first), tables);
  HWY_DYNAMIC_DISPATCH(RopeHeadRows)(context, x, from, out, to, tables, layout);
}

}  // namespace sluice
#endif  // HWY_ONCE
