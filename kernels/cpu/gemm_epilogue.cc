#include "kernels/cpu/gemm_epilogue.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/gemm_epilogue.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/activation-inl.h"
#include "kernels/cpu/simd-inl.h"
// clang-format on

#ifndef SLUICE_KERNELS_CPU_GEMM_EPILOGUE_COLUMNS_
#define SLUICE_KERNELS_CPU_GEMM_EPILOGUE_COLUMNS_
namespace sluice {

// The part of the output that a panel makes.
struct PanelColumns {
  const float* sums;  // [out.rows, kPanelWidth]
  MatrixView out;
  const float* bias;     // of the first column, or nullptr
  const float* up_bias;  // the same of the ups
  SumAddends addends;    // of these rows, from the first column on
  int64_t first_up;      // the column of its values where the ups begin, counted from there
  bool gated;
  bool add_to_out;
  GatedClamp clamp;
};

}  // namespace sluice
#endif

HWY_BEFORE_NAMESPACE();
namespace sluice {
namespace HWY_NAMESPACE {
namespace {

struct Identity {
  template <class D>
  HWY_INLINE hn::Vec<D> operator()(D, hn::Vec<D> z) const {
    return z;
  }
};

// Sums from `i` on, plus the addends, plus the bias.
template <class D>
HWY_INLINE hn::Vec<D> Biased(D d, const float* sums, const float* addends, const float* bias,
                             int64_t i) {
  auto sum = hn::LoadU(d, sums + i);
  if (addends != nullptr) sum = hn::Add(sum, hn::LoadU(d, addends + i));
  return bias == nullptr ? sum : hn::Add(sum, hn::LoadU(d, bias + i));
}

// The addends of a row and those of its ups; null where it has none.
struct RowAddends {
  RowAddends(const PanelColumns& panel, int64_t row) {
    if (panel.addends.empty() || panel.addends.rows[row] == 0) return;
    own = panel.addends.values.Row(row);
    ups = own + panel.first_up;
  }
  const float* own = nullptr;
  const float* ups = nullptr;
};

template <class F>
void FinishColumns(const PanelColumns& panel, F f) {
  for (int64_t r = 0; r < panel.out.rows; ++r) {
    const float* sums = panel.sums + r * kPanelWidth;
    float* to = panel.out.Row(r);
    const RowAddends addends(panel, r);
    ForEachVector(panel.out.cols, [&](auto d, int64_t i) HWY_ATTR {
      auto result = f(d, Biased(d, sums, addends.own, panel.bias, i));
      if (panel.gated) {
        result = hn::Mul(result, Biased(d, sums + kPanelWidth / 2, addends.ups, panel.up_bias, i));
      }
      if (panel.add_to_out) result = hn::Add(hn::LoadU(d, to + i), result);
      hn::StoreU(result, d, to + i);
    });
  }
}

// Activation::kClampedSwiGlu.
void FinishClamped(const PanelColumns& panel) {
  for (int64_t r = 0; r < panel.out.rows; ++r) {
    const float* sums = panel.sums + r * kPanelWidth;
    float* to = panel.out.Row(r);
    const RowAddends addends(panel, r);
    ForEachVector(panel.out.cols, [&](auto d, int64_t i) HWY_ATTR {
      const auto limit = hn::Set(d, panel.clamp.limit);
      // Not Min and Max, of which a NaN need not come back.
      const auto low = hn::Neg(limit);
      const auto gate_sum = Biased(d, sums, addends.own, panel.bias, i);
      const auto gate = hn::IfThenElse(hn::Gt(gate_sum, limit), limit, gate_sum);
      const auto up = Biased(d, sums + kPanelWidth / 2, addends.ups, panel.up_bias, i);
      const auto capped = hn::IfThenElse(hn::Gt(up, limit), limit, up);
      const auto bounded = hn::IfThenElse(hn::Lt(capped, low), low, capped);
      const auto glu = hn::Mul(gate, Sigmoid(d, hn::Mul(gate, hn::Set(d, panel.clamp.alpha))));
      auto result = hn::Mul(hn::Add(bounded, hn::Set(d, 1.0f)), glu);
      if (panel.add_to_out) result = hn::Add(hn::LoadU(d, to + i), result);
      hn::StoreU(result, d, to + i);
    });
  }
}

void Finish(const PanelColumns& panel, const std::optional<Activation>& activation) {
  if (!activation.has_value()) return FinishColumns(panel, Identity());
  switch (*activation) {
    case Activation::kRelu:
      return FinishColumns(panel, Relu());
    case Activation::kSilu:
      return FinishColumns(panel, Silu());
    case Activation::kGelu:
      return FinishColumns(panel, Gelu());
    case Activation::kGeluTanh:
      return FinishColumns(panel, GeluTanh());
    case Activation::kClampedSwiGlu:
      return FinishClamped(panel);
  }
}

// acc[rows[r]] += weights[r] * (sums[r] + bias), row by row of kPanelWidth.
void AddWeighted(const WeightedSums& from, float* sums_of_rows) {
  for (int64_t r = 0; r < from.count; ++r) {
    const float* sums = from.sums + r * kPanelWidth;
    float* to = sums_of_rows + (from.rows == nullptr ? r : from.rows[r]) * kPanelWidth;
    const float weight = from.weights == nullptr ? 1.0f : from.weights[r];
    ForEachVector(from.columns, [&](auto d, int64_t i) HWY_ATTR {
      const auto weighted = hn::Mul(Biased(d, sums, nullptr, from.bias, i), hn::Set(d, weight));
      hn::StoreU(hn::Add(hn::LoadU(d, to + i), weighted), d, to + i);
    });
  }
}

void Add(const float* a, const float* b, int64_t count, float* out) {
  ForEachVector(count, [=](auto d, int64_t i) HWY_ATTR {
    hn::StoreU(hn::Add(hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, out + i);
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace sluice
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice {

HWY_EXPORT(Finish);
HWY_EXPORT(Add);
HWY_EXPORT(AddWeighted);

void FinishPanel(const float* sums, const CpuPackedMatrix& weights, int64_t panel,
                 const GemmEpilogue& epilogue, MatrixView out, SumAddends addends,
                 int64_t first_row) {
  const int64_t first = panel * weights.panel_columns();
  if (!addends.empty()) {
    addends.values = addends.values.Rows(first_row, out.rows);
    addends.values.data = addends.values.Row(0) + first;
    addends.rows += first_row;
  }
  const float* bias = epilogue.bias == nullptr ? nullptr : epilogue.bias + first;
  HWY_DYNAMIC_DISPATCH(Finish)
  ({.sums = sums,
    .out = out.Columns(first, weights.PanelColumns(panel)),
    .bias = bias,
    .up_bias = bias == nullptr ? nullptr : bias + weights.num_columns(),
    .addends = addends,
    .first_up = weights.num_columns(),
    .gated = weights.gated(),
    .add_to_out = epilogue.add_to_out,
    .clamp = epilogue.clamp},
   epilogue.activation);
}

void AddWeightedSums(const WeightedSums& from, float* sums_of_rows) {
  HWY_DYNAMIC_DISPATCH(AddWeighted)(from, sums_of_rows);
}

void AddSums(const float* a, const float* b, int64_t count, float* out) {
  HWY_DYNAMIC_DISPATCH(Add)(a, b, count, out);
}

}  // namespace sluice
#endif  // HWY_ONCE
