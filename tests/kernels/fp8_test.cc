#include "kernels/fp8.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/dtype.h"
#include "kernels/fp8_activations.h"
#include "kernels/kv_format.h"

namespace sluice {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// What the code stands for, by the words of the paper.
double NumberOf(int code) {
  const int sign = code >> 7, exponent = code >> 3 & 15, mantissa = code & 7;
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa / 8.0, -6) : std::ldexp(1 + mantissa / 8.0, exponent - 7);
  return sign == 0 ? magnitude : -magnitude;
}

bool IsNumber(int code) { return (code & 0x7f) != 0x7f; }

// The code nearest to x, the one with an even mantissa of two; looked for among all.
int NearestCode(double x) {
  int nearest = std::signbit(x) ? 0x80 : 0;
  for (int code = nearest; code < nearest + 0x7f; ++code) {
    const double error = std::abs(NumberOf(code) - x), least = std::abs(NumberOf(nearest) - x);
    if (error < least || (error == least && code % 2 == 0)) nearest = code;
  }
  return nearest;
}

TEST(Fp8, EveryCodeStandsForItsNumber) {
  for (int code = 0; code < 256; ++code) {
    const float number = FloatFromFp8(static_cast<uint8_t>(code));
    if (!IsNumber(code)) {
      EXPECT_TRUE(std::isnan(number)) << code;
      EXPECT_EQ(Fp8FromFloat(number) & 0x7f, 0x7f);
      continue;
    }
    EXPECT_EQ(number, NumberOf(code)) << code;
    EXPECT_EQ(std::signbit(number), code >= 128) << code;
    EXPECT_EQ(Fp8FromFloat(number), code);
    EXPECT_EQ(FloatFromBFloat16(BFloat16FromFloat(number)), number);
  }
  EXPECT_EQ(FloatFromFp8(0x7e), kLargestFp8);
}

TEST(Fp8, RoundsToTheNearestCodeTiesToEven) {
  for (int code = 0; code + 1 < 0x7f; ++code) {
    const auto low = static_cast<float>(NumberOf(code)),
               high = static_cast<float>(NumberOf(code + 1));
    const float middle = low + (high - low) / 2;
    for (const float x : {low, std::nextafter(low, high), std::nextafter(middle, low), middle,
                          std::nextafter(middle, high), std::nextafter(high, low)}) {
      EXPECT_EQ(Fp8FromFloat(x), NearestCode(x)) << x;
      EXPECT_EQ(Fp8FromFloat(-x), NearestCode(-x)) << -x;
    }
  }
  // Of every exponent that a float has.
  for (uint32_t bits = 0; bits < 0x7f800000; bits += 0x13579) {
    const auto x = std::bit_cast<float>(bits);
    if (x <= kLargestFp8) {
      EXPECT_EQ(Fp8FromFloat(x), NearestCode(x)) << x;
    }
  }
}

TEST(Fp8, WhatIsTooLargeSaturates) {
  for (const float x : {449.0f, 464.0f, 465.0f, 480.0f, 1e30f, kInfinity}) {
    EXPECT_EQ(Fp8FromFloat(x), 0x7e) << x;
    EXPECT_EQ(Fp8FromFloat(-x), 0xfe) << x;
  }
}

TEST(Fp8, AScaleIsTheLeastPowerOfTwoThatHoldsTheLargest) {
  for (uint32_t bits = 0; bits < 0x7f800000; bits += 0x11111) {
    const auto largest = std::bit_cast<float>(bits);
    const uint16_t scale_bits = Fp8ScaleFor(bits);
    const float scale = FloatFromBFloat16(scale_bits);
    ASSERT_EQ(std::exp2(std::round(std::log2(scale))), scale);
    ASSERT_GE(scale, kLeastFp8Scale);
    ASSERT_LE(scale, kLargestFp8Scale);
    if (scale > kLeastFp8Scale) {
      ASSERT_GT(largest, 448 * scale / 2) << largest;
    }
    if (scale < kLargestFp8Scale) {
      ASSERT_LE(largest, 448 * scale) << largest;
    }
    ASSERT_EQ(Fp8Inverse(scale_bits) * scale, 1);
    // A code times its scale is a BF16 number that is no less than the least normal one.
    for (const uint8_t code : {0x01, 0x0f, 0x7e}) {
      const float number = FloatFromFp8(code) * scale;
      ASSERT_EQ(FloatFromBFloat16(BFloat16FromFloat(number)), number);
      ASSERT_GE(number, std::numeric_limits<float>::min());
    }
  }
  EXPECT_EQ(FloatFromBFloat16(Fp8ScaleFor(std::bit_cast<uint32_t>(448.0f))), 1);
  EXPECT_EQ(FloatFromBFloat16(Fp8ScaleFor(std::bit_cast<uint32_t>(448.1f))), 2);
  for (const float x : {kInfinity, std::nanf("")}) {
    EXPECT_TRUE(std::isnan(FloatFromBFloat16(Fp8ScaleFor(std::bit_cast<uint32_t>(x)))));
  }
}

TEST(KvFormat, AVectorInFp8HasAScaleBesides) {
  EXPECT_EQ(KvVectorBytes(DType::kF32, 128), 512u);
  EXPECT_EQ(KvVectorBytes(DType::kBF16, 128), 256u);
  EXPECT_EQ(KvVectorBytes(DType::kF8E4M3, 128), 130u);
  EXPECT_TRUE(IsKvType(DType::kF8E4M3));
  EXPECT_FALSE(IsKvType(DType::kF16));
}

TEST(RoundSliceToFp8, GivesTheNearestNumbersRelativeToTheLargest) {
  for (const float size : {1e-30f, 3e-4f, 1.0f, 200.0f}) {
    std::vector<float> slice(96), rounded(slice.size());
    for (size_t i = 0; i < slice.size(); ++i) {
      slice[i] = size * std::sin(static_cast<float>(i * i)) * std::exp2(-static_cast<float>(i % 9));
    }
    RoundSliceToFp8(slice, rounded.data());
    float largest = 0;
    for (const float value : slice) largest = std::max(largest, std::abs(value));
    const float scale = std::exp2(std::ceil(std::log2(largest / kLargestFp8)));
    for (size_t i = 0; i < slice.size(); ++i) {
      EXPECT_EQ(rounded[i] / scale, NumberOf(NearestCode(double{slice[i]} / scale))) << slice[i];
      EXPECT_EQ(FloatFromBFloat16(BFloat16FromFloat(rounded[i])), rounded[i]);
    }
    std::vector<float> again = rounded;
    RoundSliceToFp8(again, again.data());
    EXPECT_EQ(again, rounded);
  }
}

TEST(RoundSliceToFp8, WhatIsNotFiniteShowsInAllOfTheSlice) {
  for (const float wrong : {kInfinity, -kInfinity, std::nanf("")}) {
    std::vector<float> slice = {1, wrong, 0, 3};
    RoundSliceToFp8(slice, slice.data());
    for (const float value : slice) EXPECT_TRUE(std::isnan(value));
  }
  std::vector<float> zeroes(3), large = {1e30f, -1};
  RoundSliceToFp8(zeroes, zeroes.data());
  EXPECT_EQ(zeroes, std::vector<float>(3));
  RoundSliceToFp8(large, large.data());
  EXPECT_EQ(large[0], 57344);
}

}  // namespace
}  // namespace sluice
