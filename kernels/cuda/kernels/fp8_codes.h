// Codes of FP8 (kernels/fp8.h) as BF16 numbers, two in a register. After simt.h.
//
// A code's exponent and mantissa, put where a BF16 number has the lowest bits of its own, stand for
// its number times 2^-120, codes below the least normal number too. One multiplication makes up for
// that and scales: with a power of two it rounds nothing.
#pragma once

#include "kernels/fp8.h"

namespace sluice::cuda::SIMT_NAMESPACE {

// What codes are multiplied with: two BF16 scales times 2^120.
SIMT_DEVICE uint32_t FactorsOfScales(uint32_t scales) {
  constexpr uint32_t kTwice2To120 = 0x7b807b80;
  return MultiplyBFloat16(scales, kTwice2To120);
}
// The same number in both halves, from the low one.
SIMT_DEVICE uint32_t Twice(uint32_t half) { return (half & 0xffff) | half << 16; }

// The numbers of the codes in the upper bytes of both halves.
SIMT_DEVICE uint32_t PairFromFp8(uint32_t codes, uint32_t factors) {
  return MultiplyBFloat16((codes & 0x80008000u) | (codes >> 4 & 0x07f007f0u), factors);
}

}  // namespace sluice::cuda::SIMT_NAMESPACE
