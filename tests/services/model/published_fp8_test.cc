#include "services/model/published_fp8.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kernels/fp8.h"
#include "services/model/weights.h"
#include "tests/services/model/quantize_fixture.h"

namespace sluice::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kName[] = "model.layers.1.mlp.down_proj.weight";
constexpr int64_t kRows = 64, kColumns = 256;  // of that one

// Any code but those of no number.
uint8_t CodeAt(size_t i) {
  const auto code = static_cast<uint8_t>(i * 37 % 251);
  return (code & 0x7f) == 0x7f ? 3 : code;
}
float ScaleAt(size_t i) { return 0.0123f + 0.001f * static_cast<float>(i % 17); }

OwnedTensor Codes(const std::string& name, std::vector<uint64_t> shape) {
  OwnedTensor tensor{.name = name, .dtype = DType::kF8E4M3, .shape = shape};
  for (size_t i = 0; i < shape[0] * shape[1]; ++i) tensor.bytes.push_back(std::byte{CodeAt(i)});
  return tensor;
}

OwnedTensor ScalesOf(const std::string& name, DType dtype, std::vector<uint64_t> shape) {
  OwnedTensor tensor{.name = name, .dtype = dtype, .shape = shape};
  size_t count = 1;
  for (const uint64_t size : shape) count *= size;
  tensor.bytes.resize(count * SizeOf(dtype));
  for (size_t i = 0; i < count; ++i) {
    const float scale = ScaleAt(i);
    const uint16_t narrow = BFloat16FromFloat(scale);
    const void* from = &narrow;
    if (dtype == DType::kF32) from = &scale;
    std::memcpy(tensor.bytes.data() + i * SizeOf(dtype), from, SizeOf(dtype));
  }
  return tensor;
}

float Stored(size_t scale, DType dtype) {
  const float value = ScaleAt(scale);
  return dtype == DType::kF32 ? value : FloatFromBFloat16(BFloat16FromFloat(value));
}

class PublishedFp8Test : public QuantizeTest {
 protected:
  // A model whose matrix kName is FP8, with these scales. `edit` sees each tensor but the scales
  // before it is written.
  void WritePublished(
      const OwnedTensor& scales, const nlohmann::json& quantization = {{"quant_method", "fp8"}},
      const std::function<void(OwnedTensor&)>& edit = [](OwnedTensor&) {}) {
    WriteModel(LlamaConfig());
    std::vector<OwnedTensor> tensors = TensorsOf(ConfigOf(in()), DType::kBF16);
    for (OwnedTensor& tensor : tensors) {
      if (tensor.name == kName || tensor.name.ends_with("q_proj.weight")) {
        tensor = Codes(tensor.name, tensor.shape);
      }
      edit(tensor);
    }
    for (const int layer : {0, 1}) {
      const std::string name =
          "model.layers." + std::to_string(layer) + ".self_attn.q_proj.weight_scale";
      tensors.push_back(ScalesOf(name, DType::kBF16, {64, 1}));
    }
    tensors.push_back(scales);
    nlohmann::json config = LlamaConfig();
    config["quantization_config"] = quantization;
    folder_.Write("in/config.json", config.dump());
    folder_.Write("in/model.safetensors", SafetensorsBytes(tensors));
  }

  std::string Refusal() {
    const auto source = WeightSource::Open(in(), ConfigOf(in()));
    return std::string(source.status().message());
  }

  std::vector<float> Read(const TensorSlice& slice, WeightFormat as) {
    std::vector<std::byte> bytes(slice.rows.size() * RowBytes(as, slice.columns.size()));
    const absl::Status read =
        SourceOf(in()).Read({TensorRole::kDown, 1}, slice, as, absl::MakeSpan(bytes));
    EXPECT_TRUE(read.ok()) << read;
    std::vector<float> numbers(slice.size());
    const size_t row_bytes = RowBytes(as, slice.columns.size());
    for (int64_t row = 0; row < slice.rows.size(); ++row) {
      DecodeRow(as, absl::MakeConstSpan(bytes).subspan(row * row_bytes, row_bytes),
                absl::MakeSpan(numbers).subspan(row * slice.columns.size(), slice.columns.size()));
    }
    return numbers;
  }

  // `scale_of`: by row and column.
  template <class ScaleOf>
  void ExpectNumbers(ScaleOf scale_of) {
    const TensorSlice slice{{5, 64}, {96, 256}};
    const auto exact = Read(slice, WeightFormat::kF32), rounded = Read(slice, WeightFormat::kBF16);
    const auto fp8 = Read(slice, WeightFormat::kFp8);
    size_t i = 0;
    for (int64_t row = 5; row < 64; ++row) {
      for (int64_t col = 96; col < 256; ++col, ++i) {
        const float number = FloatFromFp8(CodeAt(row * kColumns + col));
        const float scale = scale_of(row, col);
        ASSERT_EQ(exact[i], scale * number) << row << ", " << col;
        ASSERT_EQ(rounded[i], FloatFromBFloat16(BFloat16FromFloat(scale * number)));
        ASSERT_EQ(fp8[i], FloatFromBFloat16(BFloat16FromFloat(scale)) * number);
      }
    }
  }
};

TEST_F(PublishedFp8Test, HasOneScaleForAll) {
  for (const std::vector<uint64_t>& shape : {std::vector<uint64_t>{}, {1}}) {
    WritePublished(ScalesOf(std::string(kName) + "_scale", DType::kF32, shape));
    ExpectNumbers([](int64_t, int64_t) { return Stored(0, DType::kF32); });
  }
}

TEST_F(PublishedFp8Test, HasAScaleForEachOutput) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    WritePublished(ScalesOf(std::string(kName) + "_scale", dtype, {kRows, 1}));
    ExpectNumbers([&](int64_t row, int64_t) { return Stored(row, dtype); });
  }
}

TEST_F(PublishedFp8Test, HasAScaleForEachBlock) {
  WritePublished(ScalesOf(std::string(kName) + "_scale_inv", DType::kBF16, {1, 2}),
                 {{"quant_method", "fp8"}, {"weight_block_size", {128, 128}}});
  ExpectNumbers([](int64_t, int64_t col) { return Stored(col / 128, DType::kBF16); });
}

// A group of 32 inputs may have no single scale then.
TEST_F(PublishedFp8Test, HasBlocksOfTheSizeThatTheConfigurationNames) {
  WritePublished(ScalesOf(std::string(kName) + "_scale_inv", DType::kF32, {2, 8}),
                 {{"quant_method", "fp8"}, {"weight_block_size", {32, 32}}});
  ExpectNumbers(
      [](int64_t row, int64_t col) { return Stored(row / 32 * 8 + col / 32, DType::kF32); });
  WritePublished(ScalesOf(std::string(kName) + "_scale_inv", DType::kF32, {3, 6}),
                 {{"quant_method", "fp8"}, {"weight_block_size", {24, 48}}});
  EXPECT_EQ(*SourceOf(in()).Resolve(WeightType::kAuto), WeightFormat::kF32);
  const auto exact = Read({{23, 25}, {40, 60}}, WeightFormat::kF32);
  for (int64_t i = 0; i < 40; ++i) {
    const int64_t row = 23 + i / 20, col = 40 + i % 20;
    ASSERT_EQ(exact[i], Stored(row / 24 * 6 + col / 48, DType::kF32) *
                            FloatFromFp8(CodeAt(row * kColumns + col)));
  }
}

TEST_F(PublishedFp8Test, IsKeptAsItIsAndTheHeadLeftAlone) {
  WritePublished(ScalesOf(std::string(kName) + "_scale", DType::kF32, {1}));
  const WeightSource source = SourceOf(in());
  EXPECT_EQ(*source.Resolve(WeightType::kAuto), WeightFormat::kFp8);
  EXPECT_EQ(*source.Resolve(WeightType::kFp8), WeightFormat::kFp8);
  EXPECT_EQ(*source.Resolve(WeightType::kBF16), WeightFormat::kBF16);
  EXPECT_THAT(std::string(source.Resolve(WeightType::kInt4).status().message()),
              HasSubstr("weights as fp8, which are not quantized again as int4"));
  EXPECT_EQ(FormatOf({TensorRole::kHead}, ConfigOf(in()), WeightFormat::kFp8), WeightFormat::kBF16);
  EXPECT_EQ(FormatOf({TensorRole::kUp, 1}, ConfigOf(in()), WeightFormat::kFp8), WeightFormat::kFp8);
  EXPECT_THAT(std::string(Quantize(WeightFormat::kInt8).status().message()),
              HasSubstr("quantized already, as fp8"));
}

// A publisher may leave any projection as it was.
TEST_F(PublishedFp8Test, IsFp8WhateverItsFirstProjectionIs) {
  WritePublished(ScalesOf(std::string(kName) + "_scale", DType::kF32, {1}),
                 {{"quant_method", "fp8"}}, [](OwnedTensor& tensor) {
                   if (tensor.name != "model.layers.0.self_attn.q_proj.weight") return;
                   tensor = MakeTensor(tensor.name, DType::kBF16, tensor.shape);
                 });
  const WeightSource source = SourceOf(in());
  EXPECT_EQ(*source.Resolve(WeightType::kAuto), WeightFormat::kFp8);
  std::vector<std::byte> row(RowBytes(WeightFormat::kFp8, 64));
  EXPECT_EQ(
      source.Read({TensorRole::kQ, 0}, {{0, 1}, {0, 64}}, WeightFormat::kFp8, absl::MakeSpan(row)),
      absl::OkStatus());
}

TEST_F(PublishedFp8Test, ACodeOfNoNumberEndsTheRead) {
  for (const auto code : {std::byte{0x7f}, std::byte{0xff}}) {
    WritePublished(ScalesOf(std::string(kName) + "_scale", DType::kF32, {1}),
                   {{"quant_method", "fp8"}}, [code](OwnedTensor& tensor) {
                     if (tensor.name == kName) tensor.bytes[70] = code;
                   });
    for (const WeightFormat as : {WeightFormat::kF32, WeightFormat::kBF16, WeightFormat::kFp8}) {
      std::vector<std::byte> row(RowBytes(as, kColumns));
      const absl::Status read = SourceOf(in()).Read({TensorRole::kDown, 1}, {{0, 1}, {0, kColumns}},
                                                    as, absl::MakeSpan(row));
      EXPECT_EQ(read.code(), absl::StatusCode::kInvalidArgument);
      EXPECT_THAT(std::string(read.message()),
                  AllOf(HasSubstr(kName), HasSubstr("a code of FP8 that is no number")));
    }
  }
}

TEST_F(PublishedFp8Test, WhatIsWrongWithFilesIsNamed) {
  const std::string scale = std::string(kName) + "_scale";
  WritePublished(ScalesOf("of_nothing", DType::kF32, {1}));
  EXPECT_THAT(Refusal(), AllOf(HasSubstr(in()), HasSubstr(kName), HasSubstr("missing")));
  WritePublished(ScalesOf(scale, DType::kF32, {kRows, 2}));
  EXPECT_THAT(Refusal(), AllOf(HasSubstr(scale), HasSubstr("F32 of shape [64, 2]; accepted: "),
                               HasSubstr("shape [1], [64, 1] or [1, 2]")));
  WritePublished(OwnedTensor{scale, DType::kI32, {1}, std::vector<std::byte>(4)});
  EXPECT_THAT(Refusal(), HasSubstr("is I32 of shape [1]; accepted: F32, F16, BF16"));
  OwnedTensor large = ScalesOf(scale, DType::kF32, {1});
  const float too_large = 200;
  std::memcpy(large.bytes.data(), &too_large, 4);
  WritePublished(large);
  std::vector<std::byte> row(RowBytes(WeightFormat::kFp8, kColumns));
  const absl::Status read = SourceOf(in()).Read({TensorRole::kDown, 1}, {{0, 1}, {0, kColumns}},
                                                WeightFormat::kFp8, absl::MakeSpan(row));
  EXPECT_THAT(std::string(read.message()),
              AllOf(HasSubstr(kName),
                    HasSubstr("a scale of 200; accepted: up to 128; --weights bf16 or f32")));
}

TEST(PublishedFp8, OnlyWhatIsKnownIsAccepted) {
  const auto parsed = [](const nlohmann::json& quantization) {
    nlohmann::json config = LlamaConfig();
    config["quantization_config"] = quantization;
    return ParseModelConfig(config.dump(), "", "test").status();
  };
  const nlohmann::json weights = {{"num_bits", 8}, {"type", "float"}, {"strategy", "channel"}};
  nlohmann::json compressed = {{"quant_method", "compressed-tensors"},
                               {"format", "float-quantized"},
                               {"config_groups", {{"group_0", {{"weights", weights}}}}},
                               {"ignore", {"lm_head"}}};
  EXPECT_TRUE(parsed(compressed).ok()) << parsed(compressed);
  EXPECT_TRUE(parsed({{"quant_method", "fbgemm_fp8"}, {"activation_scale_ub", 1200.0}}).ok());
  EXPECT_TRUE(parsed({{"quant_method", "fp8"}, {"activation_scheme", "dynamic"}}).ok());
  const auto refused = [&](const nlohmann::json& quantization, const std::string& text) {
    const absl::Status status = parsed(quantization);
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  };
  EXPECT_TRUE(parsed({{"quant_method", "fp8"}, {"weight_block_size", {64, 48}}}).ok());
  refused({{"quant_method", "fp8"}, {"weight_block_size", {64, 0}}},
          "weight_block_size is [64,0]; accepted: two numbers of outputs and inputs");
  refused({{"quant_method", "fp8"}, {"fmt", "e5m2"}}, "fmt is \"e5m2\"; accepted: \"e4m3\"");
  compressed["transform_config"] = nlohmann::json::object();
  EXPECT_TRUE(parsed(compressed).ok()) << parsed(compressed);
  compressed["transform_config"]["config_groups"]["R1"]["type"] = "hadamard";
  refused(compressed, "transform_config is {");
  compressed.erase("transform_config");
  compressed["config_groups"]["group_0"]["weights"]["num_bits"] = 4;
  refused(compressed, "config_groups");
  compressed["config_groups"] = 3;
  refused(compressed, "config_groups is 3; accepted: groups whose weights");
}

}  // namespace
}  // namespace sluice::testing
