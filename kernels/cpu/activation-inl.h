// The functions inside an MLP, on vectors. Included once per SIMD target (hwy/foreach_target.h),
// always after hwy/highway.h.
#if defined(SLUICE_KERNELS_CPU_ACTIVATION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_KERNELS_CPU_ACTIVATION_INL_H_
#undef SLUICE_KERNELS_CPU_ACTIVATION_INL_H_
#else
#define SLUICE_KERNELS_CPU_ACTIVATION_INL_H_
#endif

#include "hwy/highway.h"
#include "kernels/activation.h"
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice {
namespace HWY_NAMESPACE {

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

}  // namespace HWY_NAMESPACE
}  // namespace sluice
HWY_AFTER_NAMESPACE();

#endif  // SLUICE_KERNELS_CPU_ACTIVATION_INL_H_
