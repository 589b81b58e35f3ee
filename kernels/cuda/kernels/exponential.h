// Exponential functions: that which weighs tokens, and the soft cap of scores and logits. After
// simt.h.
#pragma once

namespace sluice::cuda::SIMT_NAMESPACE {

// exp(x) for x <= 0 with the bits of the CPU's (kernels/cpu/logit_passes.cc): x = n ln 2 + r, and
// fourteen terms of the series in r. 0 for what is no number.
SIMT_DEVICE double ExpOfNegative(double x) {
  if (!(x >= -708.0)) return 0;
  constexpr double kShift = 0x1.8p52;  // adding it leaves n in the low bits
  const double shifted = x * 0x1.71547652b82fep0 + kShift;
  const double n = shifted - kShift;
  double r = x - n * 0x1.62e42fefa0000p-1;
  r = r - n * 0x1.cf79abc9e3b3ap-40;
  constexpr double kFactorials[] = {479001600.0, 39916800.0, 3628800.0, 362880.0, 40320.0,
                                    5040.0,      720.0,      120.0,     24.0,     6.0,
                                    2.0,         1.0,        1.0};
  double series = 1.0 / 6227020800;
  SIMT_UNROLL
  for (int i = 0; i < 13; ++i) series = series * r + 1 / kFactorials[i];
  return series * DoubleFromBits((BitsOf(shifted) << 52) + BitsOf(1.0));
}

// cap * tanh(x / cap) to about 1e-7 of cap. tanh(u) = 1 - 2 / (exp(2u) + 1).
SIMT_DEVICE float SoftCapped(float x, float cap) {
  constexpr float kTwiceLog2E = 2.8853900817779268f;
  return cap * (1.0f - 2.0f / (Exp2(x * (kTwiceLog2E / cap)) + 1.0f));
}

}  // namespace sluice::cuda::SIMT_NAMESPACE
