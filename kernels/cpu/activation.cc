#include "kernels/cpu/activation.h"

#include "kernels/check.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/activation.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/simd-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace sluice {
namespace HWY_NAMESPACE {
namespace {

// 1 / (1 + exp(-z))
template <class D>
HWY_INLINE hn::Vec<D> Sigmoid(D d, hn::Vec<D> z) {
  const auto one = hn::Set(d, 1.0f);
  return hn::Div(one, hn::Add(one, Exp(d, hn::Neg(z))));
}

struct Relu {
  template <class D>
  HWY_INLINE hn::Vec<D> operator()(D d, hn::Vec<D> z) const {
    // Not Max, of which a NaN need not come back.
    return hn::IfThenElse(hn::Lt(z, hn::Zero(d)), hn::Zero(d), z);
  }
};

struct Silu {
  template <class D>
  HWY_INLINE hn::Vec<D> operator()(D d, hn::Vec<D> z) const {
    return hn::Div(z, hn::Add(hn::Set(d, 1.0f), Exp(d, hn::Neg(z))));
  }
};

// z times the normal distribution function at z. Below zero that is exp(-z^2 / 2) q(t), where
// t = 1 / (1 + 0.41 |z|) and q, a polynomial fitted to the exact values, is off by 3e-8 of itself.
struct Gelu {
  template <class D>
  HWY_INLINE hn::Vec<D> operator()(D d, hn::Vec<D> z) const {
    const auto one = hn::Set(d, 1.0f);
    const auto t = hn::Div(one, hn::MulAdd(hn::Abs(z), hn::Set(d, 0.41f), one));
    auto q = hn::Set(d, 0.03599945001864285f);
    q = hn::MulAdd(q, t, hn::Set(d, -0.1882305771246506f));
    q = hn::MulAdd(q, t, hn::Set(d, 0.38246131726185256f));
    q = hn::MulAdd(q, t, hn::Set(d, -0.3389162897039865f));
    q = hn::MulAdd(q, t, hn::Set(d, 0.07868696229672553f));
    q = hn::MulAdd(q, t, hn::Set(d, -0.018787731621411338f));
    q = hn::MulAdd(q, t, hn::Set(d, 0.08601313189261214f));
    q = hn::MulAdd(q, t, hn::Set(d, 0.13562035427096003f));
    q = hn::MulAdd(q, t, hn::Set(d, 0.16358744017812502f));
    q = hn::MulAdd(q, t, hn::Set(d, 0.1635659585586472f));
    const auto half_square = hn::Mul(hn::Mul(z, z), hn::Set(d, 0.5f));
    const auto below = hn::Mul(hn::Mul(q, t), Exp(d, hn::Neg(half_square)));
    return hn::Mul(z, hn::IfThenElse(hn::Lt(z, hn::Zero(d)), below, hn::Sub(one, below)));
  }
};

// (1 + tanh(u)) / 2 is the sigmoid of 2u.
struct GeluTanh {
  template <class D>
  HWY_INLINE hn::Vec<D> operator()(D d, hn::Vec<D> z) const {
    constexpr float kTwiceRootOfTwoOverPi = 1.5957691216057308f;
    const auto cubic = hn::MulAdd(hn::Mul(z, z), hn::Set(d, 0.044715f), hn::Set(d, 1.0f));
    const auto twice_u = hn::Mul(hn::Mul(z, cubic), hn::Set(d, kTwiceRootOfTwoOverPi));
    return hn::Mul(z, Sigmoid(d, twice_u));
  }
};

template <class F>
void ActivateRowsWith(CpuContext& context, F f, MatrixView x, MatrixView out) {
  ForRowRuns(context, out.rows, 4 * out.cols, [&](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t t = begin; t < end; ++t) {
      const float* from = x.Row(t);
      float* to = out.Row(t);
      ForEachVector(out.cols, [=](auto d, int64_t i) HWY_ATTR {
        hn::StoreU(f(d, hn::LoadU(d, from + i)), d, to + i);
      });
    }
  });
}

template <class F>
void ActivateGatedRowsWith(CpuContext& context, F f, MatrixView gate_up, MatrixView out) {
  ForRowRuns(context, out.rows, 4 * out.cols, [&](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t t = begin; t < end; ++t) {
      const float* gate = gate_up.Row(t);
      const float* up = gate + out.cols;
      float* to = out.Row(t);
      ForEachVector(out.cols, [=](auto d, int64_t i) HWY_ATTR {
        hn::StoreU(hn::Mul(f(d, hn::LoadU(d, gate + i)), hn::LoadU(d, up + i)), d, to + i);
      });
    }
  });
}

void ActivateRows(CpuContext& context, Activation activation, MatrixView x, MatrixView out) {
  switch (activation) {
    case Activation::kRelu:
      return ActivateRowsWith(context, Relu(), x, out);
    case Activation::kSilu:
      return ActivateRowsWith(context, Silu(), x, out);
    case Activation::kGelu:
      return ActivateRowsWith(context, Gelu(), x, out);
    case Activation::kGeluTanh:
      return ActivateRowsWith(context, GeluTanh(), x, out);
  }
}

void ActivateGatedRows(CpuContext& context, Activation activation, MatrixView gate_up,
                       MatrixView out) {
  switch (activation) {
    case Activation::kRelu:
      return ActivateGatedRowsWith(context, Relu(), gate_up, out);
    case Activation::kSilu:
      return ActivateGatedRowsWith(context, Silu(), gate_up, out);
    case Activation::kGelu:
      return ActivateGatedRowsWith(context, Gelu(), gate_up, out);
    case Activation::kGeluTanh:
      return ActivateGatedRowsWith(context, GeluTanh(), gate_up, out);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace sluice
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice {

HWY_EXPORT(ActivateRows);
HWY_EXPORT(ActivateGatedRows);

void Activate(CpuContext& context, Activation activation, MatrixView x, MatrixView out) {
  SLUICE_CHECK(x.rows == out.rows && x.cols == out.cols);
  HWY_DYNAMIC_DISPATCH(ActivateRows)(context, activation, x, out);
}

void ActivateGated(CpuContext& context, Activation activation, MatrixView gate_up, MatrixView out) {
  SLUICE_CHECK(gate_up.rows == out.rows && gate_up.cols == 2 * out.cols);
  HWY_DYNAMIC_DISPATCH(ActivateGatedRows)(context, activation, gate_up, out);
}

}  // namespace sluice
#endif  // HWY_ONCE
