// Layouts of others, against bytes that are written here by the letter of their descriptions. The
// oracle's writers are compared with in tests/services/shard/published_oracle_test.cc.
#include "services/model/published/published_matrix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/fp4.h"
#include "services/model/published/fp4.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kMatrix[] = "m.weight";

// Tensors with memory of their own.
class FakeFiles {
 public:
  template <class T>
  void Put(const std::string& name, const std::string& type, std::vector<uint64_t> shape,
           const std::vector<T>& elements) {
    Stored& stored = stored_[name];
    stored.tensor = {
        .file = "a.safetensors", .name = name, .type = type, .shape = std::move(shape)};
    stored.bytes.resize(elements.size() * sizeof(T));
    std::memcpy(stored.bytes.data(), elements.data(), stored.bytes.size());
    stored.tensor.bytes = stored.bytes;
  }
  void Erase(const std::string& name) { stored_.erase(name); }
  PackedFiles View() const {
    return {.folder = "folder", .find = [this](const std::string& name) {
              const auto found = stored_.find(name);
              return found == stored_.end() ? PackedTensor() : found->second.tensor;
            }};
  }

 private:
  struct Stored {
    PackedTensor tensor;
    std::vector<std::byte> bytes;
  };
  std::map<std::string, Stored> stored_;
};

std::vector<float> WeightsOf(const FakeFiles& files, int64_t rows, int64_t columns,
                             const PublishedScheme& scheme) {
  const auto matrix = PublishedMatrix::Open(files.View(), kMatrix, rows, columns, scheme);
  EXPECT_TRUE(matrix.ok()) << matrix.status();
  std::vector<float> weights(static_cast<size_t>(rows * columns));
  if (!matrix.ok()) return weights;
  const absl::Status read = (*matrix)->Read({0, rows, 0, columns}, absl::MakeSpan(weights));
  EXPECT_TRUE(read.ok()) << read;
  return weights;
}

std::string RefusalOf(const FakeFiles& files, int64_t rows, int64_t columns,
                      const PublishedScheme& scheme) {
  const auto matrix = PublishedMatrix::Open(files.View(), kMatrix, rows, columns, scheme);
  return std::string(matrix.status().message());
}

constexpr uint16_t kHalf = 0x3800, kOne = 0x3c00;  // 0.5 and 1 in F16

// Eight outputs and 32 inputs in groups of 16: number n of output n for input 0, else 3.
FakeFiles AwqFiles() {
  FakeFiles files;
  std::vector<uint32_t> numbers(32, 0x33333333u);
  numbers[0] = 0x75316420u;  // outputs 0, 2, 4, 6, 1, 3, 5, 7 from the lowest bits on
  files.Put("m.qweight", "I32", {32, 1}, numbers);
  files.Put<uint32_t>("m.qzeros", "I32", {2, 1}, {0x22222222u, 0x33333333u});
  files.Put("m.scales", "F16", {2, 8}, std::vector<uint16_t>(16, kHalf));
  return files;
}
constexpr PublishedScheme kAwqScheme{
    .layout = PublishedLayout::kAwq, .bits = 4, .group_size = 16, .symmetric = false};

TEST(PublishedMatrix, AwqInterleavesOutputs) {
  const std::vector<float> weights = WeightsOf(AwqFiles(), 8, 32, kAwqScheme);
  for (int n = 0; n < 8; ++n) {
    EXPECT_EQ(weights[n * 32], 0.5f * static_cast<float>(n - 2)) << n;
    EXPECT_EQ(weights[n * 32 + 1], 0.5f) << n;
    EXPECT_EQ(weights[n * 32 + 16], 0) << n;
  }
}

TEST(PublishedMatrix, PartsAreThoseOfTheWhole) {
  const FakeFiles files = AwqFiles();
  const std::vector<float> whole = WeightsOf(files, 8, 32, kAwqScheme);
  const auto matrix = PublishedMatrix::Open(files.View(), kMatrix, 8, 32, kAwqScheme);
  std::vector<float> part(3 * 7);
  ASSERT_TRUE((*matrix)->Read({3, 3, 13, 7}, absl::MakeSpan(part)).ok());
  for (int64_t i = 0; i < 21; ++i) EXPECT_EQ(part[i], whole[(3 + i / 7) * 32 + 13 + i % 7]) << i;
}

TEST(PublishedMatrix, WhatIsWrongWithAwqIsNamed) {
  FakeFiles files = AwqFiles();
  files.Erase("m.qzeros");
  EXPECT_THAT(RefusalOf(files, 8, 32, kAwqScheme),
              HasSubstr("folder: tensor \"m.qzeros\" is missing; accepted: I32 of shape [2, 1]"));
  files = AwqFiles();
  files.Put("m.scales", "F16", {1, 8}, std::vector<uint16_t>(8, kHalf));
  EXPECT_THAT(RefusalOf(files, 8, 32, kAwqScheme),
              HasSubstr("a.safetensors: tensor \"m.scales\" has shape [1, 8]; accepted: [2, 8]"));
  files.Put("m.scales", "I32", {2, 8}, std::vector<uint32_t>(16));
  EXPECT_THAT(RefusalOf(files, 8, 32, kAwqScheme),
              HasSubstr("\"m.scales\" has dtype I32; accepted: F16, BF16, F32"));
  files = AwqFiles();
  files.Put("m.qweight", "I32", {1, 32}, std::vector<uint32_t>(32));
  EXPECT_THAT(RefusalOf(files, 8, 32, kAwqScheme), HasSubstr("shape [1, 32]; accepted: [32, 1]"));
  EXPECT_THAT(RefusalOf(files, 8, 40, kAwqScheme), HasSubstr("40 inputs in groups of 16"));
}

TEST(PublishedMatrix, AScaleOfNoNumberEndsTheRead) {
  FakeFiles files = AwqFiles();
  std::vector<uint16_t> scales(16, kHalf);
  scales[9] = 0x7c00;  // of group 1 and output 1, an infinity
  files.Put("m.scales", "F16", {2, 8}, scales);
  const auto matrix = PublishedMatrix::Open(files.View(), kMatrix, 8, 32, kAwqScheme);
  std::vector<float> weights(32);
  EXPECT_TRUE((*matrix)->Read({0, 1, 0, 32}, absl::MakeSpan(weights)).ok());
  EXPECT_THAT(std::string((*matrix)->Read({1, 1, 0, 32}, absl::MakeSpan(weights)).message()),
              AllOf(HasSubstr("\"m.scales\""), HasSubstr("not finite")));
}

// 32 outputs, 32 inputs, 3 bits: number k % 8 of input k, zero points of 4.
FakeFiles GptqFiles(int zero_offset) {
  FakeFiles files;
  const auto packed = [](const std::function<uint32_t(int)>& number) {
    std::vector<uint32_t> words(3);
    for (int i = 0; i < 32; ++i) {
      for (int bit = 0; bit < 3; ++bit) {
        words[(3 * i + bit) / 32] |= (number(i) >> bit & 1) << (3 * i + bit) % 32;
      }
    }
    return words;
  };
  const std::vector<uint32_t> column = packed([](int k) { return k % 8; });
  std::vector<uint32_t> numbers;
  for (const uint32_t word : column) numbers.insert(numbers.end(), 32, word);
  files.Put("m.qweight", "I32", {3, 32}, numbers);
  const std::vector<uint32_t> zeros = packed([&](int) { return 4 - zero_offset; });
  std::vector<uint32_t> of_both = zeros;
  of_both.insert(of_both.end(), zeros.begin(), zeros.end());
  files.Put("m.qzeros", "I32", {2, 3}, of_both);
  std::vector<uint16_t> scales(64, kOne);
  std::fill(scales.begin() + 32, scales.end(), kHalf);
  files.Put("m.scales", "F16", {2, 32}, scales);
  return files;
}
PublishedScheme GptqScheme(int zero_offset) {
  return {
      .layout = PublishedLayout::kGptq, .bits = 3, .group_size = 16, .zero_offset = zero_offset};
}

TEST(PublishedMatrix, GptqRunsAcrossWordsInBothVersions) {
  for (const int offset : {0, 1}) {
    const std::vector<float> weights = WeightsOf(GptqFiles(offset), 32, 32, GptqScheme(offset));
    for (int64_t i = 0; i < 32 * 32; ++i) {
      const int64_t k = i % 32;
      EXPECT_EQ(weights[i], static_cast<float>(k % 8 - 4) * (k < 16 ? 1.0f : 0.5f)) << i;
    }
  }
}

TEST(PublishedMatrix, GptqPutsInputsIntoAnyGroup) {
  FakeFiles files = GptqFiles(1);
  std::vector<int32_t> list(32);
  for (int k = 0; k < 32; ++k) list[k] = k % 2;
  files.Put("m.g_idx", "I32", {32}, list);
  const std::vector<float> weights = WeightsOf(files, 32, 32, GptqScheme(1));
  for (int64_t k = 0; k < 32; ++k) {
    EXPECT_EQ(weights[k], static_cast<float>(k % 8 - 4) * (k % 2 == 0 ? 1.0f : 0.5f)) << k;
  }
  list[7] = 2;
  files.Put("m.g_idx", "I32", {32}, list);
  EXPECT_THAT(RefusalOf(files, 32, 32, GptqScheme(1)),
              HasSubstr("\"m.g_idx\" puts input 7 into group 2; accepted: 0 to 1"));
  files.Erase("m.g_idx");
  PublishedScheme ordered = GptqScheme(1);
  ordered.is_ordered = true;
  EXPECT_THAT(RefusalOf(files, 32, 32, ordered), HasSubstr("\"m.g_idx\" is missing"));
}

// Eight outputs, 32 inputs, one group: numbers 15 - k % 16, zero points n.
FakeFiles PackedIntFiles() {
  FakeFiles files;
  std::vector<uint32_t> numbers;
  for (int word = 0; word < 8 * 4; ++word) {
    numbers.push_back(word % 2 == 0 ? 0x89abcdefu : 0x01234567u);
  }
  files.Put("m.weight_packed", "I32", {8, 4}, numbers);
  files.Put("m.weight_scale", "F16", {8, 1}, std::vector<uint16_t>(8, kHalf));
  files.Put<int64_t>("m.weight_shape", "I64", {2}, {8, 32});
  files.Put<uint32_t>("m.weight_zero_point", "I32", {1, 1}, {0x76543210u});
  return files;
}
constexpr PublishedScheme kPackedIntScheme{
    .layout = PublishedLayout::kPackedInt, .bits = 4, .group_size = 32, .symmetric = false};

TEST(PublishedMatrix, PackedIntegersHaveZeroPointsAlongOutputs) {
  const std::vector<float> weights = WeightsOf(PackedIntFiles(), 8, 32, kPackedIntScheme);
  for (int64_t i = 0; i < 8 * 32; ++i) {
    EXPECT_EQ(weights[i], 0.5f * static_cast<float>(15 - i % 16 - i / 32)) << i;
  }
}

TEST(PublishedMatrix, PackedIntegersGoIntoGroupsWithZeroPoints) {
  const FakeFiles files = PackedIntFiles();
  const auto matrix = PublishedMatrix::Open(files.View(), kMatrix, 8, 32, kPackedIntScheme);
  EXPECT_TRUE((*matrix)->IsReadableAs(WeightFormat::kInt4Zp));
  EXPECT_TRUE((*matrix)->IsReadableAs(WeightFormat::kInt8Zp));
  EXPECT_FALSE((*matrix)->IsReadableAs(WeightFormat::kInt4ZpG128));
  EXPECT_FALSE((*matrix)->IsReadableAs(WeightFormat::kInt4));
  for (const WeightFormat format : {WeightFormat::kInt4Zp, WeightFormat::kInt8Zp}) {
    std::vector<std::byte> rows(8 * RowBytes(format, 32));
    ASSERT_TRUE((*matrix)->ReadRows({0, 8, 0, 32}, format, absl::MakeSpan(rows)).ok());
    std::vector<float> decoded(8 * 32);
    DecodeRow(format, rows, absl::MakeSpan(decoded));
    EXPECT_EQ(decoded, WeightsOf(files, 8, 32, kPackedIntScheme));
  }
}

TEST(PublishedMatrix, AShapeThatLiesIsRefused) {
  FakeFiles files = PackedIntFiles();
  files.Put<int64_t>("m.weight_shape", "I64", {2}, {32, 8});
  EXPECT_THAT(RefusalOf(files, 8, 32, kPackedIntScheme),
              HasSubstr("\"m.weight_shape\" says [32, 8]; accepted: [8, 32]"));
}

TEST(PublishedMatrix, PlainIntegersHaveAScaleForEachOutput) {
  FakeFiles files;
  files.Put<int8_t>("m.weight", "I8", {2, 3}, {-128, 0, 127, 1, 2, 3});
  files.Put<float>("m.weight_scale", "F32", {2, 1}, {0.5f, 2});
  const PublishedScheme scheme{.layout = PublishedLayout::kPlainInt};
  EXPECT_THAT(WeightsOf(files, 2, 3, scheme), ElementsAre(-64, 0, 63.5f, 2, 4, 6));
  PublishedScheme asymmetric = scheme;
  asymmetric.symmetric = false;
  EXPECT_THAT(RefusalOf(files, 2, 3, asymmetric), HasSubstr("\"m.weight_zero_point\" is missing"));
  files.Put<int8_t>("m.weight_zero_point", "I8", {2, 1}, {-128, 1});
  EXPECT_THAT(WeightsOf(files, 2, 3, asymmetric), ElementsAre(0, 64, 127.5f, 0, 2, 4));
}

TEST(PublishedMatrix, FourBitFloatsAreDecoded) {
  std::vector<std::byte> codes;
  for (int i = 0; i < 8; ++i) codes.push_back(static_cast<std::byte>(2 * i | (2 * i + 1) << 4));
  std::vector<float> numbers(16);
  DecodeFp4(codes.data(), 16, 2, numbers.data());
  EXPECT_THAT(numbers, ElementsAre(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12));
  EXPECT_EQ(Fp4BlockScale(127), 1);
  EXPECT_EQ(Fp4BlockScale(0), 0x1p-127f);
  EXPECT_EQ(Fp4BlockScale(254), 0x1p127f);
}

TEST(PublishedMatrix, MxFp4IsExactInItsOwnBitsAndInEight) {
  FakeFiles files;
  std::vector<uint8_t> codes(64);
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint8_t>(i * 37);
  files.Put("m.weight_packed", "U8", {2, 32}, codes);
  files.Put<uint8_t>("m.weight_scale", "U8", {2, 2}, {127, 120, 130, 100});
  const PublishedScheme scheme{.layout = PublishedLayout::kMxFp4, .bits = 4, .group_size = 32};
  const std::vector<float> weights = WeightsOf(files, 2, 64, scheme);
  const auto matrix = PublishedMatrix::Open(files.View(), kMatrix, 2, 64, scheme);
  std::vector<float> decoded(128);
  for (const WeightFormat format : {WeightFormat::kInt8Zp, WeightFormat::kMxFp4}) {
    std::vector<std::byte> rows(2 * RowBytes(format, 64));
    ASSERT_TRUE((*matrix)->ReadRows({0, 2, 0, 64}, format, absl::MakeSpan(rows)).ok());
    DecodeRow(format, rows, absl::MakeSpan(decoded));
    EXPECT_EQ(decoded, weights) << Name(format);
  }
  std::vector<float> odd(5);
  ASSERT_TRUE((*matrix)->Read({1, 1, 29, 5}, absl::MakeSpan(odd)).ok());
  for (int i = 0; i < 5; ++i) EXPECT_EQ(odd[i], weights[64 + 29 + i]);
  files.Put<uint8_t>("m.weight_scale", "U8", {2, 2}, {127, 255, 130, 100});
  const auto broken = PublishedMatrix::Open(files.View(), kMatrix, 2, 64, scheme);
  EXPECT_THAT(std::string((*broken)->Read({0, 2, 0, 64}, absl::MakeSpan(decoded)).message()),
              HasSubstr("a scale that is no number"));
  std::vector<std::byte> rows(2 * RowBytes(WeightFormat::kMxFp4, 64));
  EXPECT_THAT(
      std::string(
          (*broken)->ReadRows({0, 2, 0, 64}, WeightFormat::kMxFp4, absl::MakeSpan(rows)).message()),
      HasSubstr("a scale that is no number"));
}

// Two experts of three outputs each.
FakeFiles StackedFiles() {
  FakeFiles files;
  std::vector<uint8_t> codes(2 * 3 * 2 * 16);
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint8_t>(i * 37);
  files.Put("m_blocks", "U8", {2, 3, 2, 16}, codes);
  files.Put<uint8_t>("m_scales", "U8", {2, 3, 2},
                     {127, 120, 130, 100, 126, 125, 124, 123, 128, 129, 110, 90});
  return files;
}
constexpr PublishedScheme kStackedScheme{
    .layout = PublishedLayout::kMxFp4, .bits = 4, .group_size = 32};

absl::StatusOr<std::unique_ptr<PublishedMatrix>> OpenStack(const FakeFiles& files,
                                                           int64_t columns = 64) {
  EXPECT_TRUE(PublishedMatrix::IsIn(files.View(), "m", kStackedScheme));
  return PublishedMatrix::Open(files.View(), "m", 6, columns, kStackedScheme, /*matrices=*/2);
}

TEST(PublishedMatrix, StackedMxFp4IsReadRowByRow) {
  const FakeFiles files = StackedFiles();
  const auto matrix = OpenStack(files);
  ASSERT_TRUE(matrix.ok()) << matrix.status();
  std::vector<float> all(6 * 64);
  ASSERT_TRUE((*matrix)->Read({0, 6, 0, 64}, absl::MakeSpan(all)).ok());
  // Byte 0 is 0 and 0, byte 1 is 0x25: 3 and 1, with a scale of 1; output 1 has the scale 8.
  EXPECT_EQ(all[2], 3);
  EXPECT_EQ(all[3], 1);
  const auto byte = static_cast<uint8_t>(33 * 37);  // 0xc5: 3 and -2
  EXPECT_EQ(byte, 0xc5);
  EXPECT_EQ(all[64 + 2], 24);
  EXPECT_EQ(all[64 + 3], -16);
  // Every other row, as gates and ups alternate.
  const MatrixPart ups{.first_row = 1, .rows = 3, .first_column = 32, .columns = 32, .row_step = 2};
  std::vector<float> odd(3 * 32);
  ASSERT_TRUE((*matrix)->Read(ups, absl::MakeSpan(odd)).ok());
  for (const WeightFormat format : {WeightFormat::kInt8Zp, WeightFormat::kMxFp4}) {
    std::vector<std::byte> rows(3 * RowBytes(format, 32));
    ASSERT_TRUE((*matrix)->ReadRows(ups, format, absl::MakeSpan(rows)).ok());
    std::vector<float> decoded(3 * 32);
    DecodeRow(format, rows, absl::MakeSpan(decoded));
    EXPECT_EQ(decoded, odd) << Name(format);
  }
  for (int i = 0; i < 3 * 32; ++i) {
    EXPECT_EQ(odd[i], all[(1 + i / 32 * 2) * 64 + 32 + i % 32]) << i;
  }
}

TEST(PublishedMatrix, StackedMxFp4IsRefusedByTensor) {
  FakeFiles files = StackedFiles();
  files.Put("m_blocks", "U8", {2, 2, 3, 16}, std::vector<uint8_t>(192));
  EXPECT_THAT(std::string(OpenStack(files).status().message()),
              HasSubstr("a.safetensors: tensor \"m_blocks\" has shape [2, 2, 3, 16]; accepted: "
                        "[2, 3, 2, 16]"));
  files = StackedFiles();
  files.Erase("m_scales");
  EXPECT_THAT(std::string(OpenStack(files).status().message()),
              HasSubstr("tensor \"m_scales\" is missing; accepted: U8, F8_E8M0"));
  files = StackedFiles();
  files.Put("m_scales", "F32", {2, 3, 2}, std::vector<float>(12));
  EXPECT_THAT(std::string(OpenStack(files).status().message()),
              HasSubstr("tensor \"m_scales\" has dtype F32; accepted: U8, F8_E8M0"));
  EXPECT_THAT(std::string(OpenStack(files, 80).status().message()), HasSubstr("80 inputs"));
  files = StackedFiles();
  files.Put("m_scales", "U8", {2, 3, 2}, std::vector<uint8_t>(12, 255));
  std::vector<float> all(6 * 64);
  EXPECT_THAT(std::string((*OpenStack(files))->Read({0, 6, 0, 64}, absl::MakeSpan(all)).message()),
              HasSubstr("\"m_scales\" has a scale that is no number"));
}

TEST(PublishedMatrix, NvFp4DividesItsScales) {
  FakeFiles files;
  files.Put("m.weight_packed", "U8", {1, 8}, std::vector<uint8_t>(8, 0x72));  // 1 and 6
  files.Put<uint8_t>("m.weight_scale", "F8_E4M3", {1, 1}, {0x40});            // 2
  files.Put<float>("m.weight_global_scale", "F32", {1}, {8});
  const PublishedScheme scheme{.layout = PublishedLayout::kNvFp4, .bits = 4, .group_size = 16};
  const std::vector<float> weights = WeightsOf(files, 1, 16, scheme);
  EXPECT_EQ(weights[0], 0.25f);
  EXPECT_EQ(weights[1], 1.5f);
  files.Put<float>("m.weight_global_scale", "F32", {1}, {0});
  EXPECT_THAT(RefusalOf(files, 1, 16, scheme), HasSubstr("is 0; accepted: above 0"));
}

FakeFiles BitsAndBytesFiles(const std::string& state) {
  FakeFiles files;
  std::vector<float> map(16);
  for (int i = 0; i < 16; ++i) map[i] = static_cast<float>(i);
  files.Put<uint8_t>("m.weight", "U8", {4, 1}, {0x12, 0x34, 0x56, 0x78});
  files.Put("m.weight.quant_map", "F32", {16}, map);
  files.Put<float>("m.weight.absmax", "F32", {2}, {1, 10});
  files.Put("m.weight.quant_state.bitsandbytes__nf4", "U8", {state.size()},
            std::vector<char>(state.begin(), state.end()));
  return files;
}
constexpr PublishedScheme kBitsAndBytesScheme{.layout = PublishedLayout::kBitsAndBytes, .bits = 4};

TEST(PublishedMatrix, BitsAndBytesHasTheFirstNumberAbove) {
  const FakeFiles files = BitsAndBytesFiles(R"({"blocksize": 4, "shape": [2, 4]})");
  EXPECT_THAT(WeightsOf(files, 2, 4, kBitsAndBytesScheme), ElementsAre(1, 2, 3, 4, 50, 60, 70, 80));
}

TEST(PublishedMatrix, NestedScalesAreDecoded) {
  FakeFiles files = BitsAndBytesFiles(
      R"({"blocksize": 4, "shape": [2, 4], "nested_blocksize": 256, "nested_offset": 0.5})");
  std::vector<float> map(256);
  map[3] = 0.25f;
  files.Put<uint8_t>("m.weight.absmax", "U8", {2}, {3, 4});
  files.Put<float>("m.weight.nested_absmax", "F32", {1}, {2});
  files.Put("m.weight.nested_quant_map", "F32", {256}, map);
  EXPECT_THAT(WeightsOf(files, 2, 4, kBitsAndBytesScheme),
              ElementsAre(1, 2, 3, 4, 2.5f, 3, 3.5f, 4));
}

TEST(PublishedMatrix, AStateThatIsNoneIsRefused) {
  const auto refusal = [](const std::string& state) {
    return RefusalOf(BitsAndBytesFiles(state), 2, 4, kBitsAndBytesScheme);
  };
  EXPECT_THAT(refusal("{"), HasSubstr("is no JSON object"));
  EXPECT_THAT(refusal(R"({"blocksize": 4, "shape": [4, 2]})"),
              HasSubstr("has another shape; accepted: [2, 4]"));
  EXPECT_THAT(refusal(R"({"blocksize": 0, "shape": [2, 4]})"), HasSubstr("has no blocksize"));
  EXPECT_THAT(refusal(R"({"blocksize": 2, "shape": [2, 4]})"),
              HasSubstr("\"m.weight.absmax\" has shape [2]; accepted: [4]"));
}

}  // namespace
}  // namespace sluice
