#include "tests/gpu/emulator/machine/tensor_sum.h"

#include <algorithm>
#include <cmath>

namespace sluice::cuda::emulator {
namespace {

constexpr int kOfZero = -100'000;
constexpr int kLeastExponentOfF32 = -126;

// Numbers below the least normal one have its exponent, and a fraction below 1.
int ExponentOf(float x, int least) { return x == 0 ? kOfZero : std::max(std::ilogb(x), least); }

// A product's is the sum of its factors', though its fraction may be 2 or more.
int ExponentOfProduct(float a, float b, int least) {
  if (a == 0 || b == 0) return kOfZero;
  return ExponentOf(a, least) + ExponentOf(b, least);
}

// Towards zero, to `bits` behind the point at `exponent`: in units of the last one.
double CutTerm(double term, int exponent, int bits) {
  return std::trunc(std::ldexp(term, bits - exponent));
}

// Towards zero, to a number of `bits` fraction bits.
float CutSum(double sum, int bits) {
  if (sum == 0) return static_cast<float>(sum);
  const int exponent = std::max(std::ilogb(sum), kLeastExponentOfF32);
  return static_cast<float>(std::ldexp(CutTerm(sum, exponent, bits), exponent - bits));
}

}  // namespace

float TensorSum(const float* a, const float* b, int count, float c,
                const TensorPrecision& precision) {
  int largest = ExponentOf(c, kLeastExponentOfF32);
  double exact = c;
  for (int k = 0; k < count; ++k) {
    largest = std::max(largest, ExponentOfProduct(a[k], b[k], precision.least_exponent));
    exact += double{a[k]} * b[k];
  }
  if (!std::isfinite(exact) || largest == kOfZero) return static_cast<float>(exact);
  double sum = CutTerm(c, largest, precision.term_bits);
  for (int k = 0; k < count; ++k) {
    sum += CutTerm(double{a[k]} * b[k], largest, precision.term_bits);
  }
  return CutSum(std::ldexp(sum, largest - precision.term_bits), precision.sum_bits);
}

}  // namespace sluice::cuda::emulator
