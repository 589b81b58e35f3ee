// Every block format against numbers that the oracle's decoder gives the same bytes
// (gguf_blocks.py): 256 weights are checked by a few of them and by their sums.
#include "services/model/gguf/gguf_blocks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/dtype.h"
#include "services/model/gguf/gguf_types.h"

namespace sluice::testing {
namespace {

struct Weight {
  int index;
  float value;
};

struct Golden {
  std::string type;
  std::vector<int> scales;  // where the block has F16 numbers: 0.25, then 0.5
  std::vector<Weight> weights;
  double sum;
  double sum_of_magnitudes;
};

// NOLINTBEGIN(readability-magic-numbers)
const std::vector<Golden> kGoldens = {
    {"Q4_0",
     {0},
     {{0, -0.75f}, {1, 0.5f}, {15, -2.f}, {16, -0.75f}, {17, -0.25f}, {31, 0.f}},
     -5.25,
     30.75},
    {"Q4_1",
     {0, 2},
     {{0, 4.25f}, {1, 1.5f}, {15, 3.f}, {16, 2.75f}, {17, 3.5f}, {31, 3.5f}},
     77.25,
     77.25},
    {"Q5_0",
     {0},
     {{0, 2.25f}, {1, -0.5f}, {15, -3.f}, {16, 3.5f}, {17, 0.f}, {31, 0.25f}},
     3.75,
     61.75},
    {"Q5_1",
     {0, 2},
     {{0, 5.25f}, {1, 6.5f}, {15, 8.f}, {16, 5.25f}, {17, 1.75f}, {31, 1.75f}},
     142.25,
     142.25},
    {"Q8_0",
     {0},
     {{0, 21.25f}, {1, 30.5f}, {15, -32.f}, {16, -22.75f}, {17, -13.5f}, {31, -12.f}},
     -44,
     543},
    {"MXFP4",
     {},
     {{0, 0.f}, {1, 1.5f}, {15, -0.75f}, {16, 0.75f}, {17, 1.5f}, {31, 1.5f}},
     6.25,
     37.75},
    {"Q2_K",
     {80, 82},
     {{0, 8.25f},
      {17, -1.5f},
      {40, -2.5f},
      {100, -0.25f},
      {127, 10.5f},
      {128, 0.75f},
      {150, -0.5f},
      {200, -2.5f},
      {255, 0.f}},
     -115.25,
     727.75},
    {"Q3_K",
     {108},
     {{0, 20.25f},
      {17, 32.f},
      {40, 0.f},
      {100, 0.f},
      {127, 18.f},
      {128, 0.5f},
      {150, 4.25f},
      {200, 6.25f},
      {255, 10.5f}},
     239.5,
     2302.5},
    {"Q4_K",
     {0, 2},
     {{0, 59.75f},
      {17, -25.5f},
      {40, -4.f},
      {100, 11.f},
      {127, 7.5f},
      {128, 101.25f},
      {150, 81.75f},
      {200, 28.25f},
      {255, -1.f}},
     10442,
     11930},
    {"Q5_K",
     {0, 2},
     {{0, 183.75f},
      {17, -25.5f},
      {40, 6.f},
      {100, 46.f},
      {127, -13.5f},
      {128, 257.25f},
      {150, 81.75f},
      {200, 28.25f},
      {255, 14.f}},
     25886,
     26637},
    {"Q6_K",
     {208},
     {{0, -357.75f},
      {17, 128.f},
      {40, -152.25f},
      {100, 630.75f},
      {127, 375.f},
      {128, -87.75f},
      {150, -42.f},
      {200, 272.25f},
      {255, -15.f}},
     1153,
     66625.5},
};
// NOLINTEND(readability-magic-numbers)

const GgufType* TypeNamed(const std::string& name) {
  for (uint32_t number = 0; number < 64; ++number) {
    const GgufType* type = FindGgufType(number);
    if (type != nullptr && type->name == name) return type;
  }
  return nullptr;
}

// The bytes that the goldens were made of.
std::vector<std::byte> BlockOf(const Golden& golden, int bytes) {
  constexpr uint16_t kQuarter = 0x3400, kHalf = 0x3800;
  std::vector<std::byte> block(static_cast<size_t>(bytes));
  for (int i = 0; i < bytes; ++i) block[i] = static_cast<std::byte>(i * 37 + 11);
  for (size_t i = 0; i < golden.scales.size(); ++i) {
    std::memcpy(&block[golden.scales[i]], i == 0 ? &kQuarter : &kHalf, sizeof(uint16_t));
  }
  if (golden.type == "MXFP4") block[0] = std::byte{126};  // a half
  return block;
}

TEST(GgufBlocks, DecodeAsTheOracleDoes) {
  for (const Golden& golden : kGoldens) {
    const GgufType* type = TypeNamed(golden.type);
    ASSERT_NE(type, nullptr) << golden.type;
    std::vector<std::byte> blocks = BlockOf(golden, type->bytes);
    blocks.insert(blocks.end(), blocks.begin(), blocks.end());  // two alike
    std::vector<float> values(2 * static_cast<size_t>(type->weights));
    type->decode(blocks.data(), 2, values.data());
    double sum = 0, magnitudes = 0;
    for (int i = 0; i < type->weights; ++i) {
      sum += values[i];
      magnitudes += std::abs(values[i]);
      EXPECT_EQ(values[i], values[i + type->weights]) << golden.type << " " << i;
    }
    for (const Weight& weight : golden.weights) {
      EXPECT_EQ(values[weight.index], weight.value) << golden.type << " " << weight.index;
    }
    EXPECT_EQ(sum, golden.sum) << golden.type;
    EXPECT_EQ(magnitudes, golden.sum_of_magnitudes) << golden.type;
  }
}

TEST(GgufBlocks, DecodePlainElements) {
  const std::vector<float> numbers = {1.5f, -0.25f};
  std::vector<float> values(2);
  DecodeGgufF32(reinterpret_cast<const std::byte*>(numbers.data()), 2, values.data());
  EXPECT_EQ(values, numbers);
  const uint16_t halves[] = {0x3e00, 0xb400}, bfloats[] = {0x3fc0, 0xbe80};
  DecodeGgufF16(reinterpret_cast<const std::byte*>(halves), 2, values.data());
  EXPECT_EQ(values, numbers);
  DecodeGgufBF16(reinterpret_cast<const std::byte*>(bfloats), 2, values.data());
  EXPECT_EQ(values, numbers);
}

TEST(GgufBlocks, NamesWhatIsNotRead) {
  EXPECT_EQ(FindGgufType(17), nullptr);
  EXPECT_EQ(GgufTypeName(17), "IQ2_XS");
  EXPECT_EQ(GgufTypeName(12), "Q4_K");
  EXPECT_EQ(GgufTypeName(999), "number 999");
}

}  // namespace
}  // namespace sluice::testing
