// Operations on rows that layers with states have besides the recurrence.
#include <cmath>
#include <cstdint>

#include "kernels/cpu/recurrent.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/recurrent_rows.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/activation-inl.h"
#include "kernels/cpu/simd-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace sluice {
namespace HWY_NAMESPACE {
namespace {

void GateRows(CpuContext& context, MatrixView gate, MatrixView x) {
  ForRowRuns(context, x.rows, 8 * x.cols, [&](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t t = begin; t < end; ++t) {
      const float* const gates = gate.Row(t);
      float* const row = x.Row(t);
      ForEachVector(x.cols, [&](auto d, int64_t i) HWY_ATTR {
        const auto factor = Sigmoid(d, hn::LoadU(d, gates + i));
        hn::StoreU(hn::Mul(hn::LoadU(d, row + i), factor), d, row + i);
      });
    }
  });
}

void SquareRows(CpuContext& context, MatrixView x) {
  ForRowRuns(context, x.rows, x.cols, [&](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t t = begin; t < end; ++t) {
      float* const row = x.Row(t);
      ForEachVector(x.cols, [&](auto d, int64_t i) HWY_ATTR {
        const auto v = hn::LoadU(d, row + i);
        hn::StoreU(hn::Mul(v, v), d, row + i);
      });
    }
  });
}

void NormGroupsOfRows(CpuContext& context, MatrixView x, const float* weight, float eps,
                      int num_groups, MatrixView out) {
  const int64_t size = x.cols / num_groups;
  ForRowRuns(context, x.rows, x.cols, [&](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t index = begin * num_groups; index < end * num_groups; ++index) {
      const int64_t first = index % num_groups * size;
      const float* const from = x.Row(index / num_groups) + first;
      float* const to = out.Row(index / num_groups) + first;
      const float* const weights = weight + first;
      const double squares = FixedOrderSum(size, [from](auto d, int64_t i) HWY_ATTR {
        const auto v = hn::LoadU(d, from + i);
        return hn::Mul(v, v);
      });
      const auto scale =
          static_cast<float>(1 / std::sqrt(squares / static_cast<double>(size) + eps));
      ForEachVector(size, [&](auto d, int64_t i) HWY_ATTR {
        const auto normed = hn::Mul(hn::LoadU(d, from + i), hn::Set(d, scale));
        hn::StoreU(hn::Mul(normed, hn::LoadU(d, weights + i)), d, to + i);
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

HWY_EXPORT(GateRows);
HWY_EXPORT(SquareRows);
HWY_EXPORT(NormGroupsOfRows);

void CpuRecurrence::GateBySigmoid(MatrixView gate, MatrixView x) {
  SLUICE_CHECK(gate.cols == x.cols && gate.rows == x.rows);
  HWY_DYNAMIC_DISPATCH(GateRows)(context_, gate, x);
}

void CpuRecurrence::Square(MatrixView x) { HWY_DYNAMIC_DISPATCH(SquareRows)(context_, x); }

void CpuRecurrence::GroupRmsNorm(MatrixView x, const float* weight, float eps, int num_groups,
                                 MatrixView out) {
  SLUICE_CHECK(num_groups >= 1 && x.cols % num_groups == 0 && out.cols == x.cols);
  HWY_DYNAMIC_DISPATCH(NormGroupsOfRows)(context_, x, weight, eps, num_groups, out);
}

}  // namespace sluice
#endif  // HWY_ONCE
