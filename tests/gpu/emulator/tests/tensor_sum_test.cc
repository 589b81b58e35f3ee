#include "tests/gpu/emulator/machine/tensor_sum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "kernels/dtype.h"
#include "kernels/fp8.h"

namespace sluice::cuda::emulator {
namespace {

// 1 + `count` products of 2^-power.
float OneAnd(int count, int power, float sign, const TensorPrecision& precision) {
  const int half = power / 2;
  std::vector<float> a(count, std::ldexp(sign, -half)), b(count, std::ldexp(1.0f, half - power));
  return TensorSum(a.data(), b.data(), count, sign, precision);
}

TEST(TensorSum, TermsAreCutOffBehind25BitsAtTheLargestExponent) {
  // Eight of 2^-26 are lost, four of 2^-25 are the last bit of an F32.
  EXPECT_EQ(OneAnd(8, 26, 1, kBFloat16Precision), 1.0f);
  EXPECT_EQ(OneAnd(4, 25, 1, kBFloat16Precision), 1.0f + 0x1p-23f);
  EXPECT_EQ(OneAnd(13, 13, 1, kE4M3Precision), 1.0f + 13 * 0x1p-13f);
  EXPECT_EQ(OneAnd(13, 14, 1, kE4M3Precision), 1.0f);
}

// The nearest number would be one unit further away from zero.
TEST(TensorSum, SumsAreCutOffTowardsZero) {
  EXPECT_EQ(OneAnd(3, 25, 1, kBFloat16Precision), 1.0f);
  EXPECT_EQ(OneAnd(7, 25, -1, kBFloat16Precision), -1.0f - 0x1p-23f);
}

// What is lost below a large term stays lost when that one cancels.
TEST(TensorSum, ALargeTermTakesTheBitsOfSmallOnes) {
  const float a[] = {0x1p12f, -0x1p12f, 1}, b[] = {0x1p12f, 0x1p12f, 0x1p-1f};
  EXPECT_EQ(TensorSum(a, b, 3, 0, kBFloat16Precision), 0.5f);
  EXPECT_EQ(TensorSum(a, b, 3, 0, kE4M3Precision), 0.0f);
}

TEST(TensorSum, NumbersBelowTheLeastNormalOneCount) {
  const float a[] = {0x1p-9f}, b[] = {1};
  EXPECT_EQ(TensorSum(a, b, 1, 0, kE4M3Precision), 0x1p-9f);
  const float c[] = {0x1p-130f};
  EXPECT_EQ(TensorSum(c, b, 1, 0, kBFloat16Precision), 0x1p-130f);
}

TEST(TensorSum, WhatIsNoFiniteNumberStaysSo) {
  const float a[] = {INFINITY, 1}, b[] = {1, 1};
  EXPECT_EQ(TensorSum(a, b, 2, 0, kBFloat16Precision), INFINITY);
  EXPECT_TRUE(std::isnan(TensorSum(a, b, 2, -INFINITY, kBFloat16Precision)));
  EXPECT_EQ(TensorSum(a, b, 0, 0, kBFloat16Precision), 0);
}

// The largest error of `outputs` sums over K inputs, rounded by `round`, as a part of `tolerance`.
template <class Round>
double WorstError(int outputs, int inputs, int at_a_time, const TensorPrecision& precision,
                  double tolerance, Round round) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> a(inputs), b(inputs);
  double worst = 0;
  for (int i = 0; i < outputs; ++i) {
    float sum = 0;
    double exact = 0;
    for (int k = 0; k < inputs; ++k) {
      a[k] = round(normal(random));
      b[k] = round(normal(random));
      exact += double{a[k]} * b[k];
    }
    for (int k = 0; k < inputs; k += at_a_time) {
      sum = TensorSum(&a[k], &b[k], std::min(at_a_time, inputs - k), sum, precision);
    }
    worst = std::max(worst, std::fabs(sum - exact) / tolerance);
  }
  return worst;
}

// What tests on a GPU allow (Tolerance and Fp8Tolerance of tests/kernels/backend/gemm_test.cc), on as
// many inputs as their largest case has.
TEST(TensorSum, ErrorsAreWithinTheTolerancesOfProducts) {
  const double bf16 =
      WorstError(1500, 700, 16, kBFloat16Precision, 1e-6 * std::log2(700) * std::sqrt(700),
                 [](float x) { return FloatFromBFloat16(BFloat16FromFloat(x)); });
  EXPECT_LT(bf16, 0.7);
  EXPECT_GT(bf16, 0.2);
  const double fp8 = WorstError(8000, 960, 32, kE4M3Precision, 8e-3 * std::sqrt(960),
                                [](float x) { return FloatFromFp8(Fp8FromFloat(x)); });
  EXPECT_LT(fp8, 0.75);
  EXPECT_GT(fp8, 0.2);
  RecordProperty("bf16", std::to_string(bf16));
  RecordProperty("fp8", std::to_string(fp8));
}

}  // namespace
}  // namespace sluice::cuda::emulator
