// Families of mixtures of experts: what their configurations say, and where their files have what.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "services/model/model_families.h"
#include "services/model/tensor_place.h"
#include "services/model/tensor_roles.h"
#include "tests/services/model/model_folder.h"

namespace sluice {
namespace {

using ::nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

json Sizes(const std::string& model_type) {
  return {{"model_type", model_type},
          {"vocab_size", 10},
          {"hidden_size", 16},
          {"intermediate_size", 24},
          {"moe_intermediate_size", 8},
          {"shared_expert_intermediate_size", 40},
          {"num_hidden_layers", 4},
          {"num_attention_heads", 4},
          {"num_experts", 6},
          {"num_local_experts", 6},
          {"n_routed_experts", 6},
          {"num_experts_per_tok", 2},
          {"max_position_embeddings", 64}};
}

json MixtureWith(json config, const std::string& field, const json& value) {
  config[field] = value;
  return config;
}

ModelConfig ParsedMixture(const json& config) {
  const auto parsed = ParseModelConfig(config.dump(), "", "m");
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return parsed.value_or(ModelConfig{});
}

std::string MixtureRefusal(const json& config) {
  const auto parsed = ParseModelConfig(config.dump(), "", "m");
  return parsed.ok() ? "accepted" : std::string(parsed.status().message());
}

// By layer.
std::vector<bool> AreMixtures(const ModelConfig& config) {
  std::vector<bool> mixtures;
  for (const LayerSpec& layer : config.layers) mixtures.push_back(MixtureOf(layer) != nullptr);
  return mixtures;
}

TEST(MixtureFamilies, Qwen2HasASharedExpertWithAScore) {
  const ModelConfig config = ParsedMixture(Sizes("qwen2_moe"));
  const MixtureSpec& mixture = *MixtureOf(config.layers.at(0));
  EXPECT_EQ(mixture.router.num_experts, 6);
  EXPECT_EQ(mixture.router.num_chosen, 2);
  EXPECT_FALSE(mixture.router.normalised);
  EXPECT_EQ(mixture.expert.width, 8);
  EXPECT_EQ(mixture.shared_width, 40);
  EXPECT_TRUE(mixture.shared_score);
  EXPECT_TRUE(config.layers.at(0).attention.qkv_bias);
}

TEST(MixtureFamilies, QwenMixesInEveryStepthLayerThatIsNotNamed) {
  const json config = MixtureWith(Sizes("qwen3_moe"), "decoder_sparse_step", 2);
  EXPECT_THAT(AreMixtures(ParsedMixture(config)), ElementsAre(false, true, false, true));
  EXPECT_THAT(AreMixtures(ParsedMixture(MixtureWith(config, "mlp_only_layers", {3}))),
              ElementsAre(false, true, false, false));
  EXPECT_THAT(MixtureRefusal(MixtureWith(config, "mlp_only_layers", {4})),
              AllOf(HasSubstr("mlp_only_layers"), HasSubstr("from 0 to 3")));
}

TEST(MixtureFamilies, NoMoreExpertsAreChosenThanThereAre) {
  EXPECT_THAT(MixtureRefusal(MixtureWith(Sizes("mixtral"), "num_experts_per_tok", 7)),
              AllOf(HasSubstr("num_experts_per_tok is 7"), HasSubstr("num_local_experts, 6")));
}

TEST(MixtureFamilies, GroupsDivideTheExperts) {
  EXPECT_THAT(MixtureRefusal(MixtureWith(Sizes("glm4_moe"), "n_group", 4)),
              AllOf(HasSubstr("n_group is 4"), HasSubstr("a divisor of n_routed_experts, 6")));
  const ModelConfig config =
      ParsedMixture(MixtureWith(MixtureWith(Sizes("glm4_moe"), "n_group", 3), "topk_group", 2));
  EXPECT_FALSE(AreMixtures(config).at(0));
  const RouterSpec& router = MixtureOf(config.layers.at(1))->router;
  EXPECT_EQ(router.num_groups, 3);
  EXPECT_EQ(router.num_kept_groups, 2);
  EXPECT_EQ(router.num_best_of_group, 2);
  EXPECT_EQ(router.scores, RouterScores::kSigmoid);
}

TEST(MixtureFamilies, TensorsOfALayerAreThoseOfTheLayerAndOfEachExpert) {
  const ModelConfig config = ParsedMixture(Sizes("qwen2_moe"));
  int experts = 0, others = 0;
  for (const TensorId tensor : TensorsOfLayer(1, config)) {
    ++(tensor.expert >= 0 ? experts : others);
  }
  EXPECT_EQ(experts, 6 * 3);
  // Four of attention with three biases, two norms, the router and four of the shared expert.
  EXPECT_EQ(others, 4 + 3 + 2 + 1 + 4);
  EXPECT_EQ(ShapeOf({TensorRole::kDown, 1, 5}, config), (MatrixShape{16, 8}));
  EXPECT_EQ(ShapeOf({TensorRole::kSharedDown, 1}, config), (MatrixShape{16, 40}));
}

TensorPlace PlaceOf(const ModelConfig& config, TensorId tensor) {
  const testing::TempFolder folder;
  folder.Write("model.safetensors", testing::SafetensorsBytes(std::vector<testing::OwnedTensor>{}));
  const auto nothing = Checkpoint::Open(folder.path());
  EXPECT_TRUE(nothing.ok());
  return TensorPlaces(config, *FindModelFamily(config.model_type)->names, *nothing).Of(tensor);
}

// gate 0, up 0, gate 1, ... as columns of [E, H, 2F].
TEST(MixtureFamilies, ExpertsOfGptOssAreInOneTensor) {
  const ModelConfig config = ParsedMixture(Sizes("gpt_oss"));
  const TensorPlace up = PlaceOf(config, {TensorRole::kUp, 1, 2});
  EXPECT_EQ(up.name, "model.layers.1.mlp.experts.gate_up_proj");
  EXPECT_EQ(up.FileShape(), (MatrixShape{6 * 16, 48, 6}));
  EXPECT_EQ(up.first_row, 1);
  EXPECT_EQ(up.stride, 2);
  EXPECT_EQ(up.first_column, 2 * 16);
  const TensorPlace bias = PlaceOf(config, {TensorRole::kDownBias, 1, 2});
  EXPECT_EQ(bias.name, "model.layers.1.mlp.experts.down_proj_bias");
  EXPECT_EQ(bias.FileShape(), (MatrixShape{6, 16}));
  EXPECT_EQ(bias.first_column, 2);
}

// All gates, then all ups, as columns; where `sluice quantize` wrote the files, tensors for each.
TEST(MixtureFamilies, ExpertsOfLlama4AreInOneTensorUntilTheyAreQuantised) {
  ModelConfig config = ParsedMixture(Sizes("llama4_text"));
  EXPECT_EQ(PlaceOf(config, {TensorRole::kUp, 3, 1}).first_row, 24);
  config.quantization = Quantization{.format = WeightFormat::kInt8, .checkpoint_id = "1"};
  EXPECT_EQ(PlaceOf(config, {TensorRole::kUp, 3, 1}).name,
            "model.layers.3.feed_forward.experts.1.up_proj.weight");
}

}  // namespace
}  // namespace sluice
