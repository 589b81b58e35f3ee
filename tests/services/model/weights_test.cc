#include "services/model/weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/model/model_families.h"
#include "tests/services/model/model_folder.h"
#include "tests/testing/test_data.h"

namespace sluice {
namespace {

using ::sluice::testing::ElementOf;
using ::sluice::testing::MakeTensor;
using ::sluice::testing::OwnedTensor;
using ::sluice::testing::SafetensorsBytes;
using ::sluice::testing::TempFolder;
using ::sluice::testing::TinyLlamaConfig;
using ::sluice::testing::TinyLlamaTensors;
using ::testing::AllOf;
using ::testing::HasSubstr;

ModelConfig TinyWeightsConfig() { return *ParseModelConfig(TinyLlamaConfig(), "", "tiny"); }

absl::StatusOr<WeightSource> OpenWith(const TempFolder& folder, const ModelConfig& config,
                                      const std::vector<OwnedTensor>& tensors,
                                      Progress* progress = nullptr) {
  folder.Write("model.safetensors", SafetensorsBytes(tensors));
  return WeightSource::Open(folder.path(), config, progress);
}

std::vector<OwnedTensor> WithoutTensor(std::vector<OwnedTensor> tensors, const std::string& name) {
  std::erase_if(tensors, [&](const OwnedTensor& tensor) { return tensor.name == name; });
  return tensors;
}

// The elements of a stored tensor that a slice covers.
std::vector<float> Expected(const std::string& name, MatrixShape shape, const TensorSlice& slice) {
  std::vector<float> elements;
  for (int64_t row = slice.rows.begin; row < slice.rows.end; ++row) {
    for (int64_t column = slice.columns.begin; column < slice.columns.end; ++column) {
      elements.push_back(ElementOf(name, row * shape.columns + column));
    }
  }
  return elements;
}

const std::vector<std::pair<TensorRole, std::string>>& LlamaNames() {
  static const auto* const names = new std::vector<std::pair<TensorRole, std::string>>{
      {TensorRole::kAttentionNorm, "input_layernorm.weight"},
      {TensorRole::kQ, "self_attn.q_proj.weight"},
      {TensorRole::kK, "self_attn.k_proj.weight"},
      {TensorRole::kV, "self_attn.v_proj.weight"},
      {TensorRole::kO, "self_attn.o_proj.weight"},
      {TensorRole::kMlpNorm, "post_attention_layernorm.weight"},
      {TensorRole::kGate, "mlp.gate_proj.weight"},
      {TensorRole::kUp, "mlp.up_proj.weight"},
      {TensorRole::kDown, "mlp.down_proj.weight"},
      {TensorRole::kQBias, "self_attn.q_proj.bias"},
      {TensorRole::kKBias, "self_attn.k_proj.bias"},
      {TensorRole::kVBias, "self_attn.v_proj.bias"},
      {TensorRole::kOBias, "self_attn.o_proj.bias"},
      {TensorRole::kGateBias, "mlp.gate_proj.bias"},
      {TensorRole::kUpBias, "mlp.up_proj.bias"},
      {TensorRole::kDownBias, "mlp.down_proj.bias"},
  };
  return *names;
}

TEST(Weights, ReadsTheSliceOfEveryRoleStageAndRank) {
  const ModelConfig config = TinyWeightsConfig();
  ASSERT_EQ(TensorsOfLayer(0, config).size(), LlamaNames().size());
  const TempFolder folder;
  const auto source = OpenWith(folder, config, TinyLlamaTensors(DType::kF16));
  ASSERT_TRUE(source.ok()) << source.status();
  for (const int ranks : {1, 2, 4}) {
    for (int rank = 0; rank < ranks; ++rank) {
      const auto plan = MakeShardPlan(config, {.num_ranks = ranks, .rank = rank});
      ASSERT_TRUE(plan.ok()) << plan.status();
      for (auto layer = static_cast<int>(plan->layers.begin); layer < plan->layers.end; ++layer) {
        for (const auto& [role, suffix] : LlamaNames()) {
          const TensorId tensor{role, layer};
          const std::string name = absl::StrCat("model.layers.", layer, ".", suffix);
          const TensorSlice slice = SliceOf(tensor, config, *plan);
          const auto read = source->ReadFloats(tensor, slice);
          ASSERT_TRUE(read.ok()) << read.status();
          EXPECT_EQ(*read, Expected(name, ShapeOf(tensor, config), slice)) << name;
        }
      }
    }
  }
}

TEST(Weights, CutsProjectionsAlongHeadsAndMlpColumns) {
  const ModelConfig config = TinyWeightsConfig();
  const auto plan = MakeShardPlan(config, {.num_ranks = 4, .rank = 3});
  ASSERT_TRUE(plan.ok()) << plan.status();
  const auto slice = [&](TensorRole role) { return SliceOf({role, 1}, config, *plan); };
  EXPECT_EQ(slice(TensorRole::kQ), (TensorSlice{{12, 16}, {0, 16}}));
  EXPECT_EQ(slice(TensorRole::kK), (TensorSlice{{4, 8}, {0, 16}}));
  EXPECT_EQ(slice(TensorRole::kVBias), (TensorSlice{{4, 8}, {0, 1}}));
  EXPECT_EQ(slice(TensorRole::kO), (TensorSlice{{0, 16}, {12, 16}}));
  EXPECT_EQ(slice(TensorRole::kOBias), (TensorSlice{{0, 16}, {0, 1}}));
  EXPECT_EQ(slice(TensorRole::kUp), (TensorSlice{{18, 24}, {0, 16}}));
  EXPECT_EQ(slice(TensorRole::kDown), (TensorSlice{{0, 16}, {18, 24}}));
  EXPECT_EQ(slice(TensorRole::kAttentionNorm), (TensorSlice{{0, 16}, {0, 1}}));
  EXPECT_EQ(slice(TensorRole::kDown).Rows(2, 5), (TensorSlice{{2, 5}, {18, 24}}));
}

TEST(Weights, ReadsInThePackersType) {
  const ModelConfig config = TinyWeightsConfig();
  const TempFolder folder;
  const auto source = OpenWith(folder, config, TinyLlamaTensors(DType::kF32));
  ASSERT_TRUE(source.ok()) << source.status();
  std::vector<uint16_t> rows(2 * 16);
  ASSERT_TRUE(source
                  ->Read({TensorRole::kEmbedding}, {{3, 5}, {0, 16}}, WeightFormat::kBF16,
                         {reinterpret_cast<std::byte*>(rows.data()), rows.size() * 2})
                  .ok());
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(FloatFromBFloat16(rows[i]), ElementOf("model.embed_tokens.weight", 3 * 16 + i));
  }
}

TEST(Weights, KeepsMatricesAsTheFileDoesUnlessTold) {
  const ModelConfig config = TinyWeightsConfig();
  for (const DType stored : {DType::kF32, DType::kF16, DType::kBF16}) {
    const TempFolder folder;
    const auto source = OpenWith(folder, config, TinyLlamaTensors(stored));
    ASSERT_TRUE(source.ok()) << source.status();
    EXPECT_EQ(*source->Resolve(WeightType::kAuto),
              stored == DType::kBF16 ? WeightFormat::kBF16 : WeightFormat::kF32);
    EXPECT_EQ(*source->Resolve(WeightType::kF32), WeightFormat::kF32);
    EXPECT_EQ(*source->Resolve(WeightType::kBF16), WeightFormat::kBF16);
    EXPECT_EQ(*source->Resolve(WeightType::kInt8), WeightFormat::kInt8);
    EXPECT_EQ(*source->Resolve(WeightType::kInt4), WeightFormat::kInt4);
  }
}

TEST(Weights, EveryTensorOfTheModelMustBeThere) {
  const ModelConfig config = TinyWeightsConfig();
  const std::vector<OwnedTensor> all = TinyLlamaTensors(DType::kF32);
  for (const OwnedTensor& tensor : all) {
    const TempFolder folder;
    const auto source = OpenWith(folder, config, WithoutTensor(all, tensor.name));
    ASSERT_FALSE(source.ok()) << tensor.name;
    EXPECT_EQ(source.status().code(), absl::StatusCode::kNotFound);
    EXPECT_THAT(std::string(source.status().message()),
                AllOf(HasSubstr(folder.PathOf("model.safetensors")), HasSubstr(tensor.name),
                      HasSubstr(ShapeText(tensor.shape))));
  }
}

TEST(Weights, EveryTensorOfTheModelMustHaveItsShapeAndAType) {
  const ModelConfig config = TinyWeightsConfig();
  const std::vector<OwnedTensor> all = TinyLlamaTensors(DType::kF32);
  for (size_t i = 0; i < all.size(); ++i) {
    const TempFolder folder;
    std::vector<OwnedTensor> wrong = all;
    std::vector<uint64_t> shape = all[i].shape;
    ++shape.back();
    wrong[i] = MakeTensor(all[i].name, DType::kF32, shape);
    auto source = OpenWith(folder, config, wrong);
    EXPECT_THAT(std::string(source.status().message()),
                AllOf(HasSubstr(all[i].name), HasSubstr("has shape " + ShapeText(shape)),
                      HasSubstr("accepted: " + ShapeText(all[i].shape))));
    wrong[i] = MakeTensor(all[i].name, DType::kI32, all[i].shape);
    source = OpenWith(folder, config, wrong);
    EXPECT_THAT(std::string(source.status().message()),
                AllOf(HasSubstr(all[i].name), HasSubstr("dtype I32")));
  }
}

TEST(Weights, ATiedHeadIsTheEmbeddingUnderEitherName) {
  ModelConfig config = TinyWeightsConfig();
  config.tied_embeddings = true;
  const std::vector<OwnedTensor> all = TinyLlamaTensors(DType::kF32);
  const TensorSlice slice{{4, 6}, {0, 16}};
  for (const std::string absent : {"lm_head.weight", "model.embed_tokens.weight"}) {
    const TempFolder folder;
    const auto source = OpenWith(folder, config, WithoutTensor(all, absent));
    ASSERT_TRUE(source.ok()) << source.status();
    const std::string stored =
        absent == "lm_head.weight" ? "model.embed_tokens.weight" : "lm_head.weight";
    for (const TensorRole role : {TensorRole::kEmbedding, TensorRole::kHead}) {
      EXPECT_EQ(*source->ReadFloats({role}, slice), Expected(stored, {10, 16}, slice));
    }
  }
  const TempFolder folder;  // where both are stored, the embedding is the one that counts
  const auto source = OpenWith(folder, config, all);
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ(*source->ReadFloats({TensorRole::kHead}, slice),
            Expected("model.embed_tokens.weight", {10, 16}, slice));
}

TEST(Weights, AnUntiedHeadMayNotBeMissing) {
  const TempFolder folder;
  const auto source = OpenWith(folder, TinyWeightsConfig(),
                               WithoutTensor(TinyLlamaTensors(DType::kF32), "lm_head.weight"));
  EXPECT_THAT(std::string(source.status().message()), HasSubstr("\"lm_head.weight\""));
}

TEST(Weights, ProgressEndsAtWhatWasExpected) {
  const ModelConfig config = TinyWeightsConfig();
  const TempFolder folder;
  std::chrono::steady_clock::time_point now;
  std::string last;
  Progress progress({.what = "loading",
                     .write = [&](std::string_view text) { last = text; },
                     .now = [&] { return now += std::chrono::seconds(3); }});
  const auto source = OpenWith(folder, config, TinyLlamaTensors(DType::kBF16), &progress);
  ASSERT_TRUE(source.ok()) << source.status();
  const auto plan = MakeShardPlan(config, {.num_stages = 2, .num_ranks = 2, .stage = 1, .rank = 1});
  ASSERT_TRUE(plan.ok()) << plan.status();
  // Half the heads of q, k, v, o and half the MLP's columns of one layer; its vectors.
  EXPECT_EQ(source->BytesOf(*plan), 2u * (128 + 64 + 64 + 128 + 3 * 192 + 104));
  EXPECT_EQ(source->BytesOf({TensorRole::kHead}), 2u * 160);
  progress.Expect(source->BytesOf(*plan) + source->BytesOf({TensorRole::kHead}));
  ASSERT_TRUE(source->ReadFloats({TensorRole::kHead}, WholeOf({10, 16})).ok());
  for (const TensorId tensor : TensorsOfLayer(2, config)) {
    EXPECT_THAT(last, ::testing::Not(HasSubstr("100%")));
    ASSERT_TRUE(source->ReadFloats(tensor, SliceOf(tensor, config, *plan)).ok());
  }
  EXPECT_EQ(last, "loading: 100% of 2.4 kB\n");
}

// A file of the GPT-2 family: projections as [inputs, outputs], q, k and v side by side.
std::vector<OwnedTensor> TinyGpt2Tensors(const std::string& prefix) {
  std::vector<OwnedTensor> tensors;
  const auto add = [&](const std::string& name, std::vector<uint64_t> shape) {
    tensors.push_back(MakeTensor(prefix + name, DType::kF32, std::move(shape)));
  };
  add("wte.weight", {10, 8});
  add("wpe.weight", {20, 8});
  for (const std::string layer : {"h.0.", "h.1."}) {
    for (const auto& [name, inputs, outputs] :
         {std::tuple("attn.c_attn", 8, 24), std::tuple("attn.c_proj", 8, 8),
          std::tuple("mlp.c_fc", 8, 32), std::tuple("mlp.c_proj", 32, 8)}) {
      add(absl::StrCat(layer, name, ".weight"), {uint64_t(inputs), uint64_t(outputs)});
      add(absl::StrCat(layer, name, ".bias"), {uint64_t(outputs)});
    }
    for (const std::string norm : {"ln_1", "ln_2"}) {
      add(layer + norm + ".weight", {8});
      add(layer + norm + ".bias", {8});
    }
  }
  add("ln_f.weight", {8});
  add("ln_f.bias", {8});
  return tensors;
}

TEST(Weights, FindsTransposedAndStackedProjectionsWithOrWithoutTheirPrefix) {
  const ModelConfig config = *ParseModelConfig(
      R"({"model_type": "gpt2", "vocab_size": 10, "n_embd": 8, "n_layer": 2, "n_head": 2,
          "n_positions": 20})",
      "", "tiny");
  const auto plan = MakeShardPlan(config, {.num_ranks = 2, .rank = 1});
  ASSERT_TRUE(plan.ok()) << plan.status();
  for (const std::string prefix : {"transformer.", ""}) {
    const TempFolder folder;
    const auto source = OpenWith(folder, config, TinyGpt2Tensors(prefix));
    ASSERT_TRUE(source.ok()) << source.status();
    EXPECT_TRUE(source->ReadsWhole({TensorRole::kQ, 0}));
    const auto expect = [&](TensorRole role, const std::string& name, int64_t columns,
                            int64_t first_output) {
      const TensorId tensor{role, 1};
      const TensorSlice slice = SliceOf(tensor, config, *plan);
      std::vector<float> expected;
      for (int64_t row = slice.rows.begin; row < slice.rows.end; ++row) {
        for (int64_t column = slice.columns.begin; column < slice.columns.end; ++column) {
          expected.push_back(
              ElementOf(prefix + "h.1." + name, column * columns + first_output + row));
        }
      }
      const auto read = source->ReadFloats(tensor, slice);
      ASSERT_TRUE(read.ok()) << read.status();
      EXPECT_EQ(*read, expected) << name;
    };
    expect(TensorRole::kQ, "attn.c_attn.weight", 24, 0);
    expect(TensorRole::kK, "attn.c_attn.weight", 24, 8);
    expect(TensorRole::kV, "attn.c_attn.weight", 24, 16);
    expect(TensorRole::kO, "attn.c_proj.weight", 8, 0);
    expect(TensorRole::kUp, "mlp.c_fc.weight", 32, 0);
    expect(TensorRole::kDown, "mlp.c_proj.weight", 8, 0);
    expect(TensorRole::kKBias, "attn.c_attn.bias", 1, 8);
    expect(TensorRole::kDownBias, "mlp.c_proj.bias", 1, 0);
    EXPECT_EQ(*source->ReadFloats({TensorRole::kPositions}, {{3, 4}, {0, 8}}),
              Expected(prefix + "wpe.weight", {20, 8}, {{3, 4}, {0, 8}}));
  }
}

// One tensor holds q, k and v of head 0, then of head 1, ...
TEST(Weights, FindsProjectionsThatAreFusedByHead) {
  const ModelConfig config = *ParseModelConfig(
      R"({"model_type": "gpt_neox", "vocab_size": 10, "hidden_size": 16, "num_hidden_layers": 1,
          "num_attention_heads": 4, "intermediate_size": 12, "max_position_embeddings": 20,
          "rotary_pct": 0.5})",
      "", "tiny");
  std::vector<OwnedTensor> tensors;
  const auto add = [&](const std::string& name, std::vector<uint64_t> shape) {
    tensors.push_back(MakeTensor("gpt_neox." + name, DType::kF32, std::move(shape)));
  };
  const auto add_module = [&](const std::string& name, std::vector<uint64_t> shape) {
    add(name + ".bias", {shape[0]});
    add(name + ".weight", std::move(shape));
  };
  add("embed_in.weight", {10, 16});
  tensors.push_back(MakeTensor("embed_out.weight", DType::kF32, {10, 16}));
  add_module("layers.0.attention.query_key_value", {48, 16});
  add_module("layers.0.attention.dense", {16, 16});
  add_module("layers.0.mlp.dense_h_to_4h", {12, 16});
  add_module("layers.0.mlp.dense_4h_to_h", {16, 12});
  for (const char* norm :
       {"layers.0.input_layernorm", "layers.0.post_attention_layernorm", "final_layer_norm"}) {
    add_module(norm, {16});
  }
  const TempFolder folder;
  const auto source = OpenWith(folder, config, tensors);
  ASSERT_TRUE(source.ok()) << source.status();
  const std::string name = "gpt_neox.layers.0.attention.query_key_value.weight";
  int part = 0;
  for (const TensorRole role : {TensorRole::kQ, TensorRole::kK, TensorRole::kV}) {
    // Rows 6 to 11: the second half of head 1 and all of head 2.
    std::vector<float> expected;
    for (const auto& [head, first] : {std::pair(1, 2), std::pair(2, 0)}) {
      const int64_t row = head * 12 + part * 4;
      const auto rows = Expected(name, {48, 16}, {{row + first, row + 4}, {0, 16}});
      expected.insert(expected.end(), rows.begin(), rows.end());
    }
    EXPECT_EQ(*source->ReadFloats({role, 0}, {{6, 12}, {0, 16}}), expected) << part;
    ++part;
  }
}

TEST(TensorPlaces, NamesHaveTheLayerAndTheExpert) {
  TensorNames names = *FindModelFamily("llama")->names;
  names.expert_up = "mlp.experts.$1.up_proj";
  const TempFolder folder;
  folder.Write("model.safetensors", SafetensorsBytes(TinyLlamaTensors(DType::kF32)));
  const auto checkpoint = Checkpoint::Open(folder.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  const TensorPlaces places(TinyWeightsConfig(), names, *checkpoint);
  EXPECT_EQ(places.Of({TensorRole::kUp, 2, 7}).name, "model.layers.2.mlp.experts.7.up_proj.weight");
  EXPECT_EQ(places.Of({TensorRole::kDown, 1}).name, "model.layers.1.mlp.down_proj.weight");
  EXPECT_EQ(places.Of({TensorRole::kHead}).name, "lm_head.weight");
}

TEST(Weights, TheOffsetOfNormsIsAddedToTheirWeightsAlone) {
  ModelConfig config = TinyWeightsConfig();
  config.norm_weight_offset = 1;
  const TempFolder folder;
  const auto source = OpenWith(folder, config, TinyLlamaTensors(DType::kF32));
  ASSERT_TRUE(source.ok()) << source.status();
  const auto norm = source->ReadFloats({TensorRole::kFinalNorm}, WholeOf({16, 1}));
  EXPECT_EQ((*norm)[5], ElementOf("model.norm.weight", 5) + 1);
  const auto bias = source->ReadFloats({TensorRole::kOBias, 0}, WholeOf({16, 1}));
  EXPECT_EQ((*bias)[5], ElementOf("model.layers.0.self_attn.o_proj.bias", 5));
}

class RealFolder : public ::testing::TestWithParam<std::string> {};

TEST_P(RealFolder, HasEveryTensorInItsShape) {
  SLUICE_SKIP_WITHOUT(GetParam());
  const std::string folder = *testing::TestData(GetParam());
  const auto config = LoadModelConfig(folder);
  ASSERT_TRUE(config.ok()) << config.status();
  const auto source = WeightSource::Open(folder, *config);
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ(*source->Resolve(WeightType::kAuto), WeightFormat::kF32);

  const auto embedding = source->ReadFloats({TensorRole::kEmbedding},
                                            WholeOf(ShapeOf({TensorRole::kEmbedding}, *config)));
  ASSERT_TRUE(embedding.ok()) << embedding.status();
  const auto head =
      source->ReadFloats({TensorRole::kHead}, WholeOf(ShapeOf({TensorRole::kHead}, *config)));
  ASSERT_TRUE(head.ok()) << head.status();
  EXPECT_EQ(*embedding == *head, config->tied_embeddings);

  // The ranks' columns of down_proj, side by side, are the whole matrix.
  const TensorSlice whole = WholeOf(ShapeOf({TensorRole::kDown, 0}, *config));
  const auto down = source->ReadFloats({TensorRole::kDown, 0}, whole);
  ASSERT_TRUE(down.ok()) << down.status();
  std::vector<float> joined(down->size());
  const int ranks = AcceptedRankCounts(*config).back();
  ASSERT_GE(ranks, 2);
  for (int rank = 0; rank < ranks; ++rank) {
    const auto plan = MakeShardPlan(*config, {.num_ranks = ranks, .rank = rank});
    const TensorSlice slice = SliceOf({TensorRole::kDown, 0}, *config, *plan);
    const auto part = source->ReadFloats({TensorRole::kDown, 0}, slice);
    ASSERT_TRUE(part.ok()) << part.status();
    for (int64_t row = 0; row < slice.rows.size(); ++row) {
      for (int64_t column = 0; column < slice.columns.size(); ++column) {
        joined[row * whole.columns.size() + slice.columns.begin + column] =
            (*part)[row * slice.columns.size() + column];
      }
    }
  }
  EXPECT_EQ(joined, *down);
}

INSTANTIATE_TEST_SUITE_P(Weights, RealFolder,
                         ::testing::Values("models/stories260K", "models/tinystories-656k",
                                           "models/third_party/llama"));

}  // namespace
}  // namespace sluice
