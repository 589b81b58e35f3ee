// A model whose projections GPTQ quantised, from its files to what is kept of it.
#include "services/model/published_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "services/model/memory_plan.h"
#include "services/model/weight_rule.h"
#include "services/model/weights.h"
#include "tests/services/model/quantize_fixture.h"

namespace sluice::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using enum TensorRole;
using enum WeightFormat;

constexpr int64_t kGroup = 32;

template <class T>
OwnedTensor TensorWith(const std::string& name, DType dtype, std::vector<uint64_t> shape,
                       const std::function<T(size_t)>& element) {
  OwnedTensor tensor{.name = name, .dtype = dtype, .shape = std::move(shape)};
  const size_t count = tensor.shape[0] * (tensor.shape.size() > 1 ? tensor.shape[1] : 1);
  tensor.bytes.resize(count * sizeof(T));
  for (size_t i = 0; i < count; ++i) {
    const T value = element(i);
    std::memcpy(&tensor.bytes[i * sizeof(T)], &value, sizeof(T));
  }
  return tensor;
}

bool IsProjection(const OwnedTensor& tensor) {
  return tensor.name.find(".layers.") != std::string::npos && tensor.shape.size() == 2;
}

class PublishedModelTest : public QuantizeTest {
 protected:
  // `edit` sees each tensor before it is written, those of projections as GPTQ has them, and may
  // clear its name to leave it out. Projections for which `is_plain` stay BF16.
  void WriteGptq(
      const std::function<bool(const std::string&)>& is_plain = [](auto&) { return false; },
      const std::function<void(OwnedTensor&)>& edit = [](OwnedTensor&) {}, bool desc_act = false) {
    WriteModel(LlamaConfig());
    std::vector<OwnedTensor> tensors;
    for (OwnedTensor& tensor : TensorsOf(ConfigOf(in()), DType::kBF16)) {
      if (!IsProjection(tensor) || is_plain(tensor.name)) {
        tensors.push_back(std::move(tensor));
        continue;
      }
      for (OwnedTensor& part : Gptq(tensor)) tensors.push_back(std::move(part));
    }
    for (OwnedTensor& tensor : tensors) edit(tensor);
    std::erase_if(tensors, [](const OwnedTensor& tensor) { return tensor.name.empty(); });
    nlohmann::json config = LlamaConfig();
    config["quantization_config"] = {{"quant_method", "gptq"},
                                     {"bits", 4},
                                     {"group_size", kGroup},
                                     {"desc_act", desc_act},
                                     {"sym", false}};
    folder_.Write("in/config.json", config.dump());
    folder_.Write("in/model.safetensors", SafetensorsBytes(tensors));
  }

  static std::vector<OwnedTensor> Gptq(const OwnedTensor& tensor) {
    const std::string stem = tensor.name.substr(0, tensor.name.rfind(".weight"));
    const uint64_t rows = tensor.shape[0], columns = tensor.shape[1], groups = columns / kGroup;
    return {TensorWith<uint32_t>(stem + ".qweight", DType::kI32, {columns / 8, rows},
                                 [](size_t i) { return static_cast<uint32_t>(i * 2654435761u); }),
            TensorWith<uint32_t>(stem + ".qzeros", DType::kI32, {groups, rows / 8},
                                 [](size_t i) { return static_cast<uint32_t>(i * 40503u + 77); }),
            TensorWith<uint16_t>(
                stem + ".scales", DType::kF16, {groups, rows},
                [](size_t i) { return static_cast<uint16_t>(0x2c00 + i * 11 % 0x400); }),
            TensorWith<int32_t>(stem + ".g_idx", DType::kI32, {columns},
                                [](size_t i) { return static_cast<int32_t>(i) / kGroup; })};
  }

  std::vector<float> Read(TensorId tensor, const TensorSlice& slice, WeightFormat as) {
    std::vector<std::byte> bytes(slice.rows.size() * RowBytes(as, slice.columns.size()));
    const absl::Status read = SourceOf(in()).Read(tensor, slice, as, absl::MakeSpan(bytes));
    EXPECT_TRUE(read.ok()) << read;
    std::vector<float> numbers(slice.size());
    RecodeRows(as, bytes, kF32, slice.columns.size(),
               {reinterpret_cast<std::byte*>(numbers.data()), numbers.size() * sizeof(float)});
    return numbers;
  }

  std::string Refusal() {
    return std::string(WeightSource::Open(in(), ConfigOf(in())).status().message());
  }
};

TEST_F(PublishedModelTest, KeepsWhatTheFilesHold) {
  WriteGptq();
  const ModelConfig config = ConfigOf(in());
  EXPECT_EQ(config.quantization->format, kInt4Zp);
  EXPECT_THAT(config.quantization->exceptions, IsEmpty());
  EXPECT_EQ(FormatOf({kDown, 1}, config, kInt4Zp), kInt4Zp);
  EXPECT_EQ(FormatOf({kHead}, config, kInt4Zp), kBF16);
  for (const TensorRole role : {kQ, kK, kO, kUp, kDown}) {
    const TensorSlice whole = WholeOf(ShapeOf({role, 1}, config));
    EXPECT_EQ(Read({role, 1}, whole, kInt4Zp), Read({role, 1}, whole, kF32));
  }
  EXPECT_THAT(DescribeQuantization(config),
              HasSubstr("gptq, 4 bits in groups of 32 inputs: kept as int4-zp"));
}

// As ranks read them.
TEST_F(PublishedModelTest, SlicesAreThoseOfTheWhole) {
  WriteGptq();
  const MatrixShape shape = ShapeOf({kDown, 0}, ConfigOf(in()));
  const std::vector<float> whole = Read({kDown, 0}, WholeOf(shape), kF32);
  const TensorSlice slice{{3, 61}, {96, 224}};
  for (const WeightFormat as : {kF32, kInt4Zp}) {
    const std::vector<float> part = Read({kDown, 0}, slice, as);
    for (int64_t i = 0; i < slice.size(); ++i) {
      const int64_t row = 3 + i / 128, column = 96 + i % 128;
      ASSERT_EQ(part[i], whole[row * shape.columns + column]) << row << ", " << column;
    }
  }
}

TEST_F(PublishedModelTest, PlainMatricesStayPlain) {
  WriteGptq([](const std::string& name) {
    return name == "model.layers.1.self_attn.k_proj.weight" ||
           name == "model.layers.0.mlp.down_proj.weight";
  });
  const ModelConfig config = ConfigOf(in());
  EXPECT_EQ(FormatOf({kDown, 0}, config, kInt4Zp), kBF16);
  EXPECT_EQ(FormatOf({kDown, 1}, config, kInt4Zp), kInt4Zp);
  for (const TensorRole role : {kQ, kK, kV}) {  // are packed as one matrix
    EXPECT_EQ(FormatOf({role, 1}, config, kInt4Zp), kF32);
    EXPECT_EQ(FormatOf({role, 0}, config, kInt4Zp), kInt4Zp);
  }
  EXPECT_THAT(config.quantization->exceptions, SizeIs(4));
  EXPECT_EQ(FormatOf({kDown, 0}, config, kF32), kF32);
}

TEST_F(PublishedModelTest, InputsInAnyOrderAreKeptAsF32) {
  const auto edit = [](OwnedTensor& tensor) {
    if (tensor.name != "model.layers.0.mlp.down_proj.g_idx") return;
    std::reverse(reinterpret_cast<int32_t*>(tensor.bytes.data()),
                 reinterpret_cast<int32_t*>(tensor.bytes.data() + tensor.bytes.size()));
  };
  for (const bool desc_act : {false, true}) {
    WriteGptq([](auto&) { return false; }, edit, desc_act);
    const ModelConfig config = ConfigOf(in());
    EXPECT_EQ(config.quantization->format, kInt4Zp);
    EXPECT_EQ(FormatOf({kDown, 0}, config, kInt4Zp), kF32);
    EXPECT_EQ(FormatOf({kDown, 1}, config, kInt4Zp), kInt4Zp);
  }
}

TEST_F(PublishedModelTest, OtherQuantizedFormatsAreRefused) {
  WriteGptq();
  const WeightSource source = SourceOf(in());
  EXPECT_EQ(*source.Resolve(WeightType::kAuto), kInt4Zp);
  EXPECT_EQ(*source.Resolve(WeightType::kBF16), kBF16);
  EXPECT_THAT(
      std::string(source.Resolve(WeightType::kInt8).status().message()),
      HasSubstr("weights as int4-zp, which are not quantized again as int8; accepted: auto, "
                "f32, bf16"));
  EXPECT_TRUE(source.ReadsWhole({kQ, 0}));
  EXPECT_THAT(std::string(Quantize(kInt8).status().message()), HasSubstr("quantized already"));
}

TEST_F(PublishedModelTest, MemoryIsThatOfTheFile) {
  WriteGptq();
  const ModelConfig config = ConfigOf(in());
  const auto plan = MakeShardPlan(config, {});
  const uint64_t kept = ShardBytes(config, *plan, kInt4Zp);
  // Five bits a weight in place of sixteen, and vectors as F32 besides.
  EXPECT_LT(kept, ShardBytes(config, *plan, kBF16) * 5 / 16 + 8192);
  EXPECT_GT(SourceOf(in()).BytesOf(*plan), kept * 8 / 10);
}

TEST_F(PublishedModelTest, WhatIsMissingOrOfAnotherShapeIsNamed) {
  const auto without = [this](const std::string& name) {
    WriteGptq([](auto&) { return false; },
              [&](OwnedTensor& tensor) {
                if (tensor.name == name) tensor.name.clear();
              });
    return Refusal();
  };
  const std::string stem = "model.layers.1.self_attn.o_proj";
  EXPECT_THAT(without(stem + ".scales"), AllOf(HasSubstr(in()), HasSubstr(stem + ".scales"),
                                               HasSubstr("is missing; accepted: F16, BF16, F32")));
  EXPECT_THAT(without(stem + ".qzeros"), HasSubstr(stem + ".qzeros\" is missing"));
  EXPECT_THAT(without(stem + ".qweight"), HasSubstr(stem + ".weight"));
  WriteGptq([](auto&) { return false; },
            [&](OwnedTensor& tensor) {
              if (tensor.name == stem + ".qweight") std::swap(tensor.shape[0], tensor.shape[1]);
            });
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("model.safetensors"), HasSubstr(stem + ".qweight"),
                               HasSubstr("has shape [64, 8]; accepted: [8, 64]")));
}

}  // namespace
}  // namespace sluice::testing
