#include "kernels/weight_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "kernels/affine_word.h"
#include "kernels/dtype.h"
#include "kernels/fp8.h"
#include "kernels/group_scale.h"

namespace sluice {
namespace {

using enum WeightFormat;

std::vector<std::byte> Encoded(WeightFormat format, const std::vector<float>& row) {
  std::vector<std::byte> bytes(RowBytes(format, static_cast<int64_t>(row.size())));
  EncodeRow(format, row, absl::MakeSpan(bytes));
  return bytes;
}

std::vector<float> Decoded(WeightFormat format, absl::Span<const std::byte> bytes, size_t size) {
  std::vector<float> row(size);
  DecodeRow(format, bytes, absl::MakeSpan(row));
  return row;
}

std::vector<float> RoundTrip(WeightFormat format, const std::vector<float>& row) {
  return Decoded(format, Encoded(format, row), row.size());
}

std::vector<float> RandomRow(int64_t size, float deviation, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, deviation);
  std::vector<float> row(size);
  for (float& weight : row) weight = normal(random);
  return row;
}

float ScaleOf(absl::Span<const std::byte> group) {
  uint16_t bits;
  std::memcpy(&bits, group.data(), sizeof(bits));
  return FloatFromBFloat16(bits);
}

double SquaredError(absl::Span<const float> a, absl::Span<const float> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum;
}

// The least squared error of a group as INT4 with any bfloat16 as its scale.
double LeastInt4Error(absl::Span<const float> group) {
  double least = std::numeric_limits<double>::infinity();
  float largest = 0;
  for (const float weight : group) largest = std::max(largest, std::abs(weight));
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float scale = FloatFromBFloat16(static_cast<uint16_t>(bits));
    if (!(std::abs(scale) > largest / 20 && std::abs(scale) < largest / 5)) continue;
    double error = 0;
    for (const float weight : group) {
      const double q = std::clamp(std::nearbyint(double{weight} / scale), -8.0, 7.0);
      error += (weight - scale * q) * (weight - scale * q);
    }
    least = std::min(least, error);
  }
  return least;
}

TEST(WeightFormat, PlainElementsAreKeptOrRounded) {
  const std::vector<float> row = RandomRow(33, 1, 1);
  EXPECT_EQ(RoundTrip(kF32, row), row);
  const std::vector<float> rounded = RoundTrip(kBF16, row);
  for (size_t i = 0; i < row.size(); ++i) {
    EXPECT_EQ(rounded[i], FloatFromBFloat16(BFloat16FromFloat(row[i])));
  }
}

TEST(WeightFormat, LiesInBytesAsDescribed) {
  std::vector<float> row(64);
  row[0] = -127;
  row[5] = 3;
  row[32] = 6;  // of the second group
  row[33] = -8;
  const auto int8 = Encoded(kInt8, row);
  ASSERT_EQ(int8.size(), 68u);
  EXPECT_EQ(ScaleOf(int8), 1);
  EXPECT_EQ(static_cast<int8_t>(int8[2]), -127);
  EXPECT_EQ(static_cast<int8_t>(int8[2 + 5]), 3);
  EXPECT_NEAR(
      ScaleOf(absl::MakeConstSpan(int8).subspan(34)) * static_cast<int8_t>(int8[34 + 2 + 1]), -8,
      0.04);
  const auto int4 = Encoded(kInt4, row);
  ASSERT_EQ(int4.size(), 36u);
  const float scale = ScaleOf(absl::MakeConstSpan(int4).subspan(18));
  const auto pair = static_cast<int>(int4[18 + 2]);
  EXPECT_NEAR(scale * static_cast<float>((pair & 15) - 8), 6, 0.5);
  EXPECT_NEAR(scale * static_cast<float>((pair >> 4) - 8), -8, 0.5);
  EXPECT_EQ(static_cast<int>(int4[18 + 2 + 9]), 0x88);
  const auto int6 = Encoded(kInt6, row);
  ASSERT_EQ(int6.size(), 52u);
  const auto second = absl::MakeConstSpan(int6).subspan(26);
  const auto halves = static_cast<int>(second[2]), upper = static_cast<int>(second[4]);
  EXPECT_NEAR(ScaleOf(second) * static_cast<float>((halves & 15) + (upper & 3) * 16 - 32), 6, 0.15);
  EXPECT_NEAR(ScaleOf(second) * static_cast<float>((halves >> 4) + (upper >> 2 & 3) * 16 - 32), -8,
              0.15);
  EXPECT_EQ(static_cast<int>(second[2 + 3]), 0);     // lower bits of zeroes
  EXPECT_EQ(static_cast<int>(second[2 + 5]), 0xaa);  // their upper bits
}

// Half a step at most, the step being the largest weight / 127, up to the rounding of the scale.
TEST(WeightFormat, Int8IsOffByHalfAStep) {
  for (const float deviation : {1e-30f, 1e-3f, 1.0f, 1e30f}) {
    const std::vector<float> row = RandomRow(4096, deviation, 2);
    const std::vector<float> read = RoundTrip(kInt8, row);
    for (size_t group = 0; group < row.size(); group += kWeightGroup) {
      float largest = 0;
      for (size_t i = group; i < group + kWeightGroup; ++i) {
        largest = std::max(largest, std::abs(row[i]));
      }
      const float bound = largest / 127 * (1 + 0x1p-7f) * 0.5f * (1 + 0x1p-10f);
      for (size_t i = group; i < group + kWeightGroup; ++i) {
        EXPECT_LE(std::abs(read[i] - row[i]), bound);
      }
    }
  }
}

// Every weight is the nearest number of FP8 relative to a power of two, which the largest chooses.
TEST(WeightFormat, Fp8IsOffByAnEighthOfThePowerOfTwoBelow) {
  for (const float deviation : {1e-30f, 1e-3f, 1.0f, 1e4f}) {
    const std::vector<float> row = RandomRow(4096, deviation, 8);
    const auto bytes = Encoded(kFp8, row);
    const std::vector<float> read = RoundTrip(kFp8, row);
    for (size_t i = 0; i < row.size(); ++i) {
      const float scale = ScaleOf(absl::MakeConstSpan(bytes).subspan(i / 32 * 34, 34));
      EXPECT_EQ(std::exp2(std::round(std::log2(scale))), scale);
      const float step =
          std::max(std::exp2(std::floor(std::log2(std::abs(row[i])))), scale * 0x1p-6f);
      EXPECT_LE(std::abs(read[i] - row[i]), step / 16);
      EXPECT_EQ(read[i], FloatFromBFloat16(BFloat16FromFloat(read[i])));
      EXPECT_EQ(read[i], FloatFromFp8(Fp8FromFloat(row[i] / scale)) * scale);
    }
  }
}

// Whoever wrote a row may have taken any scale.
TEST(WeightFormat, Fp8IsReadWithAnyScale) {
  std::vector<std::byte> bytes(34);
  const uint16_t scale = BFloat16FromFloat(0.3f);
  std::memcpy(bytes.data(), &scale, 2);
  bytes[2] = std::byte{0x7e};
  bytes[33] = std::byte{0x81};
  const std::vector<float> row = Decoded(kFp8, bytes, 32);
  EXPECT_EQ(row[0], 448 * FloatFromBFloat16(scale));
  EXPECT_EQ(row[31], -0x1p-9f * FloatFromBFloat16(scale));
  EXPECT_EQ(row[1], 0);
}

TEST(WeightFormat, Fp8SaturatesWhatNoScaleHolds) {
  std::vector<float> row(32, 1);
  row[3] = -1e38f;
  const std::vector<float> read = RoundTrip(kFp8, row);
  EXPECT_EQ(read[3], -57344);
  EXPECT_EQ(read[4], 1);
}

// Against every scale there is: in sum the search loses little to the best, nearly all of it by
// scales that have three bits of mantissa.
TEST(WeightFormat, Int4FindsNearlyTheBestScales) {
  const std::vector<float> row = RandomRow(32 * 100, 0.02f, 3);
  const std::vector<float> read = RoundTrip(kInt4, row);
  double error = 0;
  double least = 0;
  for (size_t group = 0; group < row.size(); group += kWeightGroup) {
    const auto weights = absl::MakeConstSpan(row).subspan(group, kWeightGroup);
    error += SquaredError(weights, absl::MakeConstSpan(read).subspan(group, kWeightGroup));
    least += LeastInt4Error(weights);
  }
  EXPECT_GE(error, 0.999 * least);
  EXPECT_LE(error, 1.07 * least);
}

TEST(WeightFormat, GroupsAreEncodedForThemselves) {
  const std::vector<float> row = RandomRow(32 * 6, 1, 5);
  for (const WeightFormat format : {kInt8, kInt6, kInt4, kFp8}) {
    const auto whole = Encoded(format, row);
    const auto part = Encoded(format, {row.begin() + 64, row.begin() + 128});
    EXPECT_EQ(std::memcmp(part.data(), whole.data() + RowBytes(format, 64), part.size()), 0);
  }
}

TEST(WeightFormat, SpecialWeightsAreNoTrouble) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const WeightFormat format : {kInt8, kInt6, kInt4, kFp8}) {
    EXPECT_EQ(RoundTrip(format, std::vector<float>(32)), std::vector<float>(32));
    // Too small for a scale with a reciprocal.
    EXPECT_EQ(RoundTrip(format, std::vector<float>(32, 1e-41f)), std::vector<float>(32));
    for (const float bad : {infinity, -infinity, std::nanf("")}) {
      std::vector<float> row = RandomRow(96, 1, 6);
      row[40] = bad;
      const std::vector<float> read = RoundTrip(format, row);
      for (size_t i = 0; i < row.size(); ++i) {
        EXPECT_EQ(std::isnan(read[i]), i / kWeightGroup == 1) << i;
      }
    }
  }
}

// What no scale holds becomes the largest that one does.
TEST(WeightFormat, HugeWeightsSaturate) {
  std::vector<float> huge(32, 1);
  huge[3] = -1e38f;  // whose square is infinite
  EXPECT_NEAR(RoundTrip(kInt8, huge)[3] / huge[3], 1, 0.2);
  EXPECT_EQ(RoundTrip(kInt6, huge)[3], -32 * kLargestGroupScale);
  EXPECT_EQ(RoundTrip(kInt4, huge)[3], -8 * kLargestGroupScale);
  for (const WeightFormat format : {kInt8, kInt6, kInt4}) EXPECT_EQ(RoundTrip(format, huge)[4], 0);
}

// A fourteenth of what INT4 leaves of such weights.
TEST(WeightFormat, Int6LeavesLittleSquaredError) {
  for (const float deviation : {1e-5f, 1e-3f, 1.0f, 1e3f}) {
    const std::vector<float> row = RandomRow(4096, deviation, 9);
    const std::vector<float> read = RoundTrip(kInt6, row);
    double error = 0, squares = 0;
    for (size_t i = 0; i < row.size(); ++i) {
      error += (read[i] - row[i]) * (read[i] - row[i]);
      squares += row[i] * row[i];
    }
    EXPECT_LE(error, 5e-4 * squares) << deviation;
  }
}

// Kernels may keep them in nine bits, and make BF16 numbers of weights without rounding.
TEST(WeightFormat, ScalesOfInt6AndInt4HaveNineBits) {
  for (const float deviation : {1e-30f, 1e-6f, 1e-3f, 1.0f, 300.0f, 1e30f}) {
    const std::vector<float> row = RandomRow(4096, deviation, 10);
    for (const WeightFormat format : {kInt6, kInt4}) {
      const auto bytes = Encoded(format, row);
      for (size_t at = 0; at < bytes.size(); at += RowBytes(format, kWeightGroup)) {
        uint16_t bits;
        std::memcpy(&bits, &bytes[at], sizeof(bits));
        ASSERT_TRUE(IsGroupScale(bits));
        const uint32_t code = kGroupScaleCodes.of[(bits & 0x7fff) >> 4];
        EXPECT_EQ(FloatFromGroupScaleCode(code), std::abs(FloatFromBFloat16(bits)));
      }
      for (const float weight : RoundTrip(format, row)) {
        if (format != kInt4) break;
        EXPECT_EQ(weight, FloatFromBFloat16(BFloat16FromFloat(weight)));
      }
    }
  }
}

TEST(WeightFormat, ScaleCodesAreInOrderAndTakenBack) {
  for (uint32_t code = 0; code <= kLargestGroupScaleCode; ++code) {
    const float scale = FloatFromGroupScaleCode(code);
    EXPECT_EQ(GroupScaleCodeBelow(scale), code);
    EXPECT_TRUE(IsGroupScale(BFloat16FromFloat(scale)));
    if (code == 0) continue;
    EXPECT_GT(scale, FloatFromGroupScaleCode(code - 1));
    EXPECT_EQ(GroupScaleCodeBelow(std::nextafter(scale, 0.0f)), code - 1);
  }
  EXPECT_EQ(GroupScaleCodeBelow(1e38f), kLargestGroupScaleCode);
}

TEST(WeightFormat, Int6IsInt8OfTheSameNumbers) {
  const std::vector<float> row = RandomRow(96, 1, 11);
  const auto int6 = Encoded(kInt6, row);
  std::vector<std::byte> int8(RowBytes(kInt8, 96));
  RegroupRows(kInt6, int6, kInt8, absl::MakeSpan(int8));
  EXPECT_EQ(Decoded(kInt8, int8, 96), Decoded(kInt6, int6, 96));
}

TEST(WeightFormat, LargeGroupsOfInt8AreSmallOnesOfTheSameScaleAndNumbers) {
  std::vector<float> row = RandomRow(192, 1, 12);
  row[40] = 100;  // in the second half of a group, whose first half then has its scale
  const auto large = Encoded(kInt8G64, row);
  std::vector<std::byte> small(RowBytes(kInt8, 192));
  RegroupRows(kInt8G64, large, kInt8, absl::MakeSpan(small));
  EXPECT_EQ(Decoded(kInt8, small, 192), Decoded(kInt8G64, large, 192));
  EXPECT_EQ(ScaleOf(absl::MakeConstSpan(small)), ScaleOf(absl::MakeConstSpan(small).subspan(34)));
  const std::vector<float> decoded = Decoded(kInt8G64, large, 192);
  for (size_t i = 0; i < row.size(); ++i) {
    EXPECT_NEAR(decoded[i], row[i], (i < 64 ? 100.0 : 4.0) / 127 * 0.51) << i;
  }
}

TEST(WeightFormat, FormatsWithZeroPointsLieInBytesAsDescribed) {
  std::vector<float> row(32, 0.5f);
  row[0] = -1;
  row[1] = 6.5f;  // a step of 0.5 from -1 to 6.5 is fifteen of them
  const auto int4 = Encoded(kInt4Zp, row);
  ASSERT_EQ(int4.size(), 20u);
  uint32_t word;
  std::memcpy(&word, int4.data(), sizeof(word));
  EXPECT_EQ(AffineScale(word), 0.5f);
  EXPECT_EQ(AffineZero(word), 2);
  EXPECT_EQ(static_cast<int>(int4[4]), 0xf0);   // the lowest and the highest number
  EXPECT_EQ(static_cast<int>(int4[19]), 0x33);  // one step above zero
  EXPECT_EQ(RoundTrip(kInt4Zp, row), row);
  row.resize(128, -0.25f);
  EXPECT_EQ(Encoded(kInt4ZpG128, row).size(), 68u);
  EXPECT_EQ(Encoded(kInt8ZpG128, row).size(), 132u);
  EXPECT_EQ(Encoded(kInt8Zp, row).size(), 4 * 36u);
}

// Half a step from the nearest number, the step being a 15th or a 255th of what a group spans, and
// its zero point as far from where it should be.
TEST(WeightFormat, FormatsWithZeroPointsAreOffByAStep) {
  for (const WeightFormat format : {kInt4Zp, kInt8Zp, kInt4ZpG128, kInt8ZpG128}) {
    std::vector<float> row = RandomRow(1280, 1, 11);
    for (float& weight : row) weight += 1.5f;
    const std::vector<float> decoded = RoundTrip(format, row);
    const int64_t group = TraitsOf(format).group;
    for (size_t i = 0; i < row.size(); ++i) {
      const auto begin = row.begin() + static_cast<int64_t>(i) / group * group;
      const float low = std::min(0.0f, *std::min_element(begin, begin + group));
      const float high = std::max(0.0f, *std::max_element(begin, begin + group));
      const float step = (high - low) / static_cast<float>((1 << TraitsOf(format).bits) - 1);
      EXPECT_NEAR(decoded[i], row[i], 1.01f * step) << i;
    }
  }
}

TEST(WeightFormat, Mxfp4TakesThePowerOfTwoOfItsSpecification) {
  std::vector<float> row(32, 0.25f);
  row[0] = -3;      // 4 to below 8 times the scale, 1 / 2
  row[1] = 3.9f;    // beyond 6 times it: the largest
  row[2] = 0.625f;  // in the middle between 0.5 and 0.75: the one with an even mantissa
  row[3] = 0.875f;
  const auto bytes = Encoded(kMxFp4, row);
  ASSERT_EQ(bytes.size(), 17u);
  EXPECT_EQ(static_cast<int>(bytes[0]), 126);
  EXPECT_EQ(static_cast<int>(bytes[1]), 0x7f);   // -6 and 6
  EXPECT_EQ(static_cast<int>(bytes[16]), 0x11);  // 0.5 each
  const std::vector<float> decoded = Decoded(kMxFp4, bytes, row.size());
  EXPECT_THAT(std::vector<float>(decoded.begin(), decoded.begin() + 5),
              ::testing::ElementsAre(-3, 3, 0.5f, 1, 0.25f));
  EXPECT_EQ(RoundTrip(kMxFp4, decoded), decoded);
  row[7] = NAN;
  EXPECT_TRUE(std::isnan(RoundTrip(kMxFp4, row)[0]));
  EXPECT_EQ(RoundTrip(kMxFp4, std::vector<float>(32, 0x1p-127f))[31], 0x1p-127f);
}

TEST(WeightFormat, ScalesOfHalfPrecisionAreExactBesideAZeroPoint) {
  for (uint32_t bits = 1; bits < 0x7c00; ++bits) {
    const float scale = FloatFromHalf(static_cast<uint16_t>(bits));
    ASSERT_EQ(AffineScale(AffineWord(scale, 255)), scale);
    ASSERT_EQ(AffineZero(AffineWord(-scale, 255)), 255);
  }
  EXPECT_EQ(AffineScale(AffineWord(0x1.00017fp0f, 0)), 0x1.0002p0f);  // rounded to nearest
  EXPECT_TRUE(std::isnan(AffineScale(AffineWord(NAN, 7))));
  EXPECT_EQ(AffineZero(AffineWord(NAN, 7)), 7);
}

TEST(WeightFormat, RowsAreRecodedByWayOfTheirNumbers) {
  const std::vector<float> row = RandomRow(256, 1, 12);
  const auto two = Encoded(kInt4ZpG128, row);
  std::vector<std::byte> bf16(RowBytes(kBF16, 128) * 2);
  RecodeRows(kInt4ZpG128, two, kBF16, 128, absl::MakeSpan(bf16));
  const std::vector<float> exact = Decoded(kInt4ZpG128, two, 256);
  const std::vector<float> rounded = Decoded(kBF16, bf16, 256);
  for (size_t i = 0; i < exact.size(); ++i) {
    EXPECT_EQ(rounded[i], FloatFromBFloat16(BFloat16FromFloat(exact[i])));
  }
}

TEST(WeightFormat, EveryProcessorFindsTheSameBits) {
  std::vector<float> row = RandomRow(32 * 1000, 0.02f, 7);
  for (size_t i = 0; i < row.size(); i += 7) row[i] = std::round(row[i] * 100) / 100;  // ties
  for (const WeightFormatTraits& traits : kWeightFormats) {
    const WeightFormat format = traits.format;
    const auto expected = Encoded(format, row);
    for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
      hwy::SetSupportedTargetsForTest(target);
      hwy::GetChosenTarget().Update(hwy::SupportedTargets());
      EXPECT_TRUE(Encoded(format, row) == expected) << hwy::TargetName(target);
    }
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
}

}  // namespace
}  // namespace sluice
