#include "services/model/quantized_tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "kernels/dtype.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

constexpr WeightFormat kQuantized[] = {WeightFormat::kInt8, WeightFormat::kInt6,
                                       WeightFormat::kInt4, WeightFormat::kFp8};

std::vector<std::byte> EncodedRow(WeightFormat format, int64_t columns) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<float> row(columns);
  for (float& weight : row) weight = normal(random);
  std::vector<std::byte> bytes(RowBytes(format, columns));
  EncodeRow(format, row, absl::MakeSpan(bytes));
  return bytes;
}

TEST(QuantizedTensor, GroupsAreTakenApartAndPutTogether) {
  constexpr int64_t kColumns = 160;
  for (const WeightFormat format : kQuantized) {
    const std::vector<std::byte> row = EncodedRow(format, kColumns);
    std::vector<std::byte> quotients(QuotientShape(format, {1, kColumns}).size());
    std::vector<std::byte> scales(2 * ScaleShape(format, {1, kColumns}).size());
    ASSERT_EQ(quotients.size() + scales.size(), row.size());
    SplitGroups(format, row, absl::MakeSpan(quotients), absl::MakeSpan(scales));
    // Group 3, byte 5 of its quotients; its scale.
    const size_t group = RowBytes(format, kWeightGroup);
    EXPECT_EQ(quotients[3 * (group - 2) + 5], row[3 * group + 2 + 5]);
    EXPECT_EQ(scales[3 * 2 + 1], row[3 * group + 1]);
    std::vector<std::byte> joined(row.size());
    ASSERT_TRUE(JoinGroups(format, quotients, scales, absl::MakeSpan(joined)).ok());
    EXPECT_EQ(joined, row);
  }
}

TEST(QuantizedTensor, SaysWhereASliceIs) {
  const TensorSlice slice{{3, 7}, {64, 160}};
  EXPECT_EQ(QuotientSlice(WeightFormat::kInt8, slice), slice);
  EXPECT_EQ(QuotientSlice(WeightFormat::kFp8, slice), slice);
  EXPECT_EQ(QuotientSlice(WeightFormat::kInt6, slice), (TensorSlice{{3, 7}, {48, 120}}));
  EXPECT_EQ(QuotientSlice(WeightFormat::kInt4, slice), (TensorSlice{{3, 7}, {32, 80}}));
  EXPECT_EQ(ScaleSlice(WeightFormat::kInt4, slice), (TensorSlice{{3, 7}, {2, 5}}));
}

TEST(QuantizedTensor, RefusesTheQuotientThatNoEncoderWrites) {
  const std::vector<std::byte> scales(4);
  for (const size_t at : {0, 31, 63}) {
    std::vector<std::byte> quotients(64, std::byte{0x81});
    std::vector<std::byte> out(68);
    EXPECT_TRUE(JoinGroups(WeightFormat::kInt8, quotients, scales, absl::MakeSpan(out)).ok());
    quotients[at] = std::byte{0x80};
    const auto joined = JoinGroups(WeightFormat::kInt8, quotients, scales, absl::MakeSpan(out));
    EXPECT_THAT(std::string(joined.message()), HasSubstr("-128; accepted: -127 to 127"));
  }
}

TEST(QuantizedTensor, RefusesCodesThatAreNoNumbersAndScalesThatAreTooLarge) {
  const std::vector<std::byte> codes(64, std::byte{0x7e});
  std::vector<std::byte> scales(4), out(68);
  const auto joined = [&](const std::vector<std::byte>& with) {
    return std::string(JoinGroups(WeightFormat::kFp8, with, scales, absl::MakeSpan(out)).message());
  };
  EXPECT_EQ(joined(codes), "");
  for (const int nan : {0x7f, 0xff}) {
    std::vector<std::byte> bad = codes;
    bad[63] = static_cast<std::byte>(nan);
    EXPECT_THAT(joined(bad), HasSubstr("that is no number"));
  }
  scales[3] = std::byte{0x43};  // 128
  EXPECT_EQ(joined(codes), "");
  scales[2] = std::byte{0x01};
  EXPECT_THAT(joined(codes), HasSubstr("a scale of 129; accepted: up to 128"));
  scales[2] = std::byte{0xc0}, scales[3] = std::byte{0x7f};  // what encoders write of a bad group
  EXPECT_EQ(joined(codes), "");
}

TEST(QuantizedTensor, RefusesScalesThatNineBitsDoNotHold) {
  for (const WeightFormat format : {WeightFormat::kInt6, WeightFormat::kInt4}) {
    const size_t bytes = RowBytes(format, kWeightGroup);
    const std::vector<std::byte> quotients(bytes - 2);
    std::vector<std::byte> scales(2), out(bytes);
    const auto joined = [&](uint16_t bits) {
      std::memcpy(scales.data(), &bits, sizeof(bits));
      return std::string(JoinGroups(format, quotients, scales, absl::MakeSpan(out)).message());
    };
    for (const float scale : {0.0f, 240.0f, -240.0f, 0x1p-25f, 0x1.ep-22f, 1.125f}) {
      EXPECT_EQ(joined(BFloat16FromFloat(scale)), "") << scale;
    }
    EXPECT_EQ(joined(0x7fc0), "");  // what encoders write of a bad group
    EXPECT_THAT(joined(BFloat16FromFloat(1.0625f)), HasSubstr("a scale of 1.0625; accepted"));
    for (const float scale :
         {256.0f, 0x1p-26f, 0x1.8p-25f, std::numeric_limits<float>::infinity()}) {
      EXPECT_NE(joined(BFloat16FromFloat(scale)), "") << scale;
    }
  }
}

}  // namespace
}  // namespace sluice
