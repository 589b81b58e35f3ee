// Reading PEFT folders: which tensors an adapter changes, by what, and what is refused by name.

#include "services/model/adapter_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/model/tensor_roles.h"
#include "tests/services/model/model_folder.h"

namespace sluice::testing {
namespace {

using ::testing::HasSubstr;

constexpr char kLayer[] = "base_model.model.model.layers.1.";

struct Fields {
  int r = 2;
  std::string more;  // such as ", \"use_rslora\": true"
};

class AdapterSourceTest : public ::testing::Test {
 protected:
  AdapterSourceTest() {
    model_.Write("config.json", TinyLlamaConfig());
    model_.Write("model.safetensors", SafetensorsBytes(TinyLlamaTensors(DType::kF32)));
    config_ = *LoadModelConfig(model_.path());
  }

  // Opens an adapter of these tensors, whose names get a prefix.
  absl::StatusOr<AdapterSource> Open(const Fields& fields, const std::vector<OwnedTensor>& tensors,
                                     const AdapterLimits& limits = {}) {
    adapter_.Write("adapter_config.json",
                   absl::StrCat(R"({"peft_type": "LORA", "lora_alpha": 6, "bias": "none", "r": )",
                                fields.r, fields.more, "}"));
    adapter_.Write("adapter_model.safetensors", SafetensorsBytes(tensors));
    return AdapterSource::Open(adapter_.path(), config_, *PublishedPlaces(model_.path(), config_),
                               limits);
  }

  // A and B of one module of layer 1, by its name there.
  static std::vector<OwnedTensor> Module(const std::string& name, uint64_t outputs, uint64_t inputs,
                                         uint64_t rank = 2) {
    return {
        MakeTensor(absl::StrCat(kLayer, name, ".lora_A.weight"), DType::kF32, {rank, inputs}),
        MakeTensor(absl::StrCat(kLayer, name, ".lora_B.weight"), DType::kBF16, {outputs, rank})};
  }

  void ExpectRefused(const absl::StatusOr<AdapterSource>& source, absl::StatusCode code,
                     const std::string& words) {
    ASSERT_FALSE(source.ok());
    EXPECT_EQ(source.status().code(), code) << source.status();
    EXPECT_THAT(std::string(source.status().message()), HasSubstr(words));
  }

  TempFolder model_, adapter_;
  ModelConfig config_;
};

TEST_F(AdapterSourceTest, FindsTheTensorThatAModuleIs) {
  const auto source = Open({}, Module("self_attn.k_proj", 8, 16));
  ASSERT_TRUE(source.ok()) << source.status();
  for (const TensorId tensor : AllTensors(config_)) {
    EXPECT_EQ(source->Has(tensor), (tensor == TensorId{TensorRole::kK, 1}));
  }
  EXPECT_EQ(source->max_rank(), 2);
  const LowRankFactors factors = source->Read({TensorRole::kK, 1}, {{4, 8}, {2, 16}});
  const std::string name = absl::StrCat(kLayer, "self_attn.k_proj");
  ASSERT_EQ(factors.a.size(), 2U * 14);
  ASSERT_EQ(factors.b.size(), 4U * 2);
  // Row 1, column 3 of the whole A; row 5, rank 1 of the whole B, times alpha / r.
  EXPECT_EQ(factors.a[14 + 1], ElementOf(name + ".lora_A.weight", 16 + 3));
  EXPECT_EQ(factors.b[2 + 1], 3 * ElementOf(name + ".lora_B.weight", 5 * 2 + 1));
}

TEST_F(AdapterSourceTest, ScalesByRankAlphaAndPatterns) {
  const auto scale = [&](const Fields& fields, uint64_t rank) {
    const auto source = Open(fields, Module("self_attn.k_proj", 8, 16, rank));
    if (!source.ok()) return std::string(source.status().message());
    const LowRankFactors factors = source->Read({TensorRole::kK, 1}, {{0, 8}, {0, 16}});
    const std::string name = absl::StrCat(kLayer, "self_attn.k_proj.lora_B.weight");
    return absl::StrCat(factors.b[1] / ElementOf(name, 1));
  };
  EXPECT_EQ(scale({}, 2), "3");
  EXPECT_EQ(scale({.r = 4, .more = R"(, "use_rslora": true)"}, 4), "3");
  EXPECT_EQ(scale({.r = 9, .more = R"(, "rank_pattern": {"k_proj": 2})"}, 2), "3");
  EXPECT_EQ(scale({.r = 9, .more = R"(, "rank_pattern": {"layers\\.1\\..*": 3, "k_proj": 2})"}, 3),
            "2");
  EXPECT_EQ(scale({.more = R"(, "alpha_pattern": {"k_pro": 1, "self_attn.k_proj": 8})"}, 2), "4");
}

TEST_F(AdapterSourceTest, TurnsProductsThatAreStoredTheOtherWay) {
  const auto source =
      Open({.more = R"(, "fan_in_fan_out": true)"}, Module("self_attn.k_proj", 16, 8));
  ASSERT_TRUE(source.ok()) << source.status();
  const LowRankFactors factors = source->Read({TensorRole::kK, 1}, {{0, 8}, {0, 16}});
  const std::string name = absl::StrCat(kLayer, "self_attn.k_proj");
  EXPECT_EQ(factors.a[16 + 5], ElementOf(name + ".lora_B.weight", 5 * 2 + 1));
  EXPECT_EQ(factors.b[7 * 2 + 1], 3 * ElementOf(name + ".lora_A.weight", 8 + 7));
}

TEST_F(AdapterSourceTest, TakesNamesOfModelsInsideOthers) {
  auto tensors = Module("self_attn.k_proj", 8, 16);
  for (OwnedTensor& tensor : tensors) {
    tensor.name.replace(0, std::string("base_model.model.model.").size(),
                        "base_model.model.model.language_model.");
  }
  const auto source = Open({}, tensors);
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_TRUE(source->Has({TensorRole::kK, 1}));
}

TEST_F(AdapterSourceTest, ReadsWhatReplacesEmbeddingAndHead) {
  const std::string name = "base_model.model.lm_head.modules_to_save.weight";
  const auto source = Open({}, {MakeTensor(name, DType::kF32, {10, 16})});
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_TRUE(source->Replaces({TensorRole::kHead}));
  EXPECT_FALSE(source->Replaces({TensorRole::kEmbedding}));
  EXPECT_EQ(source->ReadSaved({TensorRole::kHead}, {3, 5})[16], ElementOf(name, 4 * 16));
}

TEST_F(AdapterSourceTest, RefusesByName) {
  using enum absl::StatusCode;
  const auto k = Module("self_attn.k_proj", 8, 16);
  ExpectRefused(Open({.more = R"(, "use_dora": true)"}, k), kUnimplemented, "use_dora");
  ExpectRefused(Open({.more = R"(, "lora_bias": true)"}, k), kUnimplemented, "lora_bias");
  ExpectRefused(Open({.more = R"(, "target_parameters": ["x"])"}, k), kUnimplemented,
                "target_parameters");
  ExpectRefused(Open({.r = 3}, k), kInvalidArgument, "rank 3");
  ExpectRefused(Open({}, k, {.max_rank = 1}), kInvalidArgument, "accepted: at most 1");
  ExpectRefused(Open({}, {k[0]}), kInvalidArgument, "lacks its lora_B");
  ExpectRefused(Open({}, Module("self_attn.k_proj", 16, 16)), kInvalidArgument,
                "this model's is [8, 16]");
  ExpectRefused(Open({}, Module("self_attn.c_proj", 8, 16)), kInvalidArgument,
                "self_attn.c_proj, which is no matrix of this model");
  ExpectRefused(Open({}, Module("input_layernorm", 16, 16)), kInvalidArgument, "input_layernorm");
  const std::string vector = absl::StrCat(kLayer, "self_attn.k_proj.lora_magnitude_vector");
  ExpectRefused(Open({}, {k[0], k[1], MakeTensor(vector, DType::kF32, {8})}), kUnimplemented,
                "lora_magnitude_vector");
  const std::string saved = absl::StrCat(kLayer, "self_attn.k_proj.weight");
  ExpectRefused(Open({}, {MakeTensor(saved, DType::kF32, {8, 16})}), kUnimplemented,
                "the embedding and the head");
  ExpectRefused(Open({.more = R"(, "rank_pattern": {"(": 2})"}, k), kInvalidArgument,
                "rank_pattern");
}

TEST_F(AdapterSourceTest, RefusesEitherUseOfATiedMatrix) {
  config_.tied_embeddings = true;
  const std::string name = "base_model.model.model.embed_tokens.lora_embedding_";
  ExpectRefused(Open({}, {MakeTensor(name + "A", DType::kF32, {2, 10}),
                          MakeTensor(name + "B", DType::kF32, {16, 2})}),
                absl::StatusCode::kUnimplemented, "are one matrix");
}

TEST_F(AdapterSourceTest, SaysWhichFileIsMissing) {
  ExpectRefused(
      AdapterSource::Open(model_.path(), config_, *PublishedPlaces(model_.path(), config_), {}),
      absl::StatusCode::kNotFound, "adapter_config.json");
}

}  // namespace
}  // namespace sluice::testing
