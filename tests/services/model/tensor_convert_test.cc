#include "services/model/tensor_convert.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

namespace sluice {
namespace {

template <typename To, typename From>
std::vector<To> Convert(DType from, const std::vector<From>& in, DType to) {
  // One byte of offset on both sides: any alignment must do.
  std::vector<std::byte> source(1 + in.size() * sizeof(From));
  std::memcpy(source.data() + 1, in.data(), in.size() * sizeof(From));
  std::vector<std::byte> target(1 + in.size() * sizeof(To));
  ConvertElements(from, source.data() + 1, to, absl::MakeSpan(target).subspan(1));
  std::vector<To> out(in.size());
  std::memcpy(out.data(), target.data() + 1, in.size() * sizeof(To));
  return out;
}

TEST(TensorConvert, WidensEveryHalfExactly) {
  std::vector<uint16_t> halves(1 << 16);
  for (size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<uint16_t>(i);
  const auto floats = Convert<float>(DType::kF16, halves, DType::kF32);
  for (size_t i = 0; i < halves.size(); ++i) {
    const int exponent = static_cast<int>(i >> 10 & 31);
    const int mantissa = static_cast<int>(i & 1023);
    const float sign = i >> 15 ? -1.0f : 1.0f;
    if (exponent == 31 && mantissa != 0) {
      EXPECT_TRUE(std::isnan(floats[i])) << i;
    } else if (exponent == 31) {
      EXPECT_EQ(floats[i], sign * std::numeric_limits<float>::infinity()) << i;
    } else {
      const float magnitude = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -24)
                                            : std::ldexp(1024.0f + mantissa, exponent - 25);
      EXPECT_EQ(floats[i], sign * magnitude) << i;
    }
  }
}

TEST(TensorConvert, EveryBFloat16SurvivesTheWayToFloatAndBack) {
  std::vector<uint16_t> values;
  for (uint32_t i = 0; i < 1 << 16; ++i) {
    const bool is_nan = (i & 0x7f80) == 0x7f80 && (i & 0x7f) != 0;
    if (!is_nan) values.push_back(static_cast<uint16_t>(i));
  }
  const auto floats = Convert<float>(DType::kBF16, values, DType::kF32);
  EXPECT_EQ(floats[0x3f80], 1.0f);
  EXPECT_EQ(Convert<uint16_t>(DType::kF32, floats, DType::kBF16), values);
  EXPECT_EQ(Convert<uint16_t>(DType::kBF16, values, DType::kBF16), values);
}

TEST(TensorConvert, RoundsToNearestWithTiesToEven) {
  // BF16 around 1 has steps of 2^-7.
  const std::vector<float> floats = {
      1.0f, 1.0f + 0x1p-8f, 1.0f + 0x3p-8f, -1.0f - 0x3p-8f, 1.0f + 0x1.01p-8f, 3.4e38f};
  const std::vector<uint16_t> expected = {0x3f80, 0x3f80, 0x3f82, 0xbf82, 0x3f81, 0x7f80};
  EXPECT_EQ(Convert<uint16_t>(DType::kF32, floats, DType::kBF16), expected);
}

TEST(TensorConvert, RoundsHalvesThroughTheirExactValue) {
  // 1 + 2^-8 lies midway between two BF16 numbers; 1 + 2^-8 + 2^-10 does not.
  const std::vector<uint16_t> halves = {0x3c00, 0x3c04, 0x3c05, 0x3c0c};
  const std::vector<uint16_t> expected = {0x3f80, 0x3f80, 0x3f81, 0x3f82};
  EXPECT_EQ(Convert<uint16_t>(DType::kF16, halves, DType::kBF16), expected);
}

TEST(TensorConvert, CopiesFloatsBitForBit) {
  const std::vector<uint32_t> bits = {0, 0x80000000u, 1, 0x7f800001u, 0xffc12345u};
  EXPECT_EQ(Convert<uint32_t>(DType::kF32, bits, DType::kF32), bits);
}

}  // namespace
}  // namespace sluice
