// Families with states in place of keys and values: what their configurations say, and where their
// files have what.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "services/model/model_families.h"
#include "services/model/shard_plan.h"
#include "services/model/tensor_place.h"
#include "services/model/tensor_roles.h"
#include "services/model/weight_rule.h"
#include "tests/services/model/model_folder.h"

namespace sluice {
namespace {

using ::nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

json RecurrentSizes(const std::string& model_type, const json& more = json::object()) {
  json config = {{"model_type", model_type},
                 {"vocab_size", 10},
                 {"hidden_size", 16},
                 {"intermediate_size", 24},
                 {"moe_intermediate_size", 8},
                 {"moe_shared_expert_intermediate_size", 12},
                 {"num_hidden_layers", 4},
                 {"num_attention_heads", 4},
                 {"num_key_value_heads", 2},
                 {"head_dim", 8},
                 {"linear_num_value_heads", 8},
                 {"linear_num_key_heads", 4},
                 {"linear_key_head_dim", 6},
                 {"linear_value_head_dim", 10},
                 {"mamba_n_heads", 8},
                 {"mamba_d_head", 10},
                 {"mamba_d_state", 6},
                 {"mamba_n_groups", 2},
                 {"mamba_num_heads", 8},
                 {"mamba_head_dim", 10},
                 {"ssm_state_size", 6},
                 {"n_groups", 2},
                 {"max_position_embeddings", 64}};
  config.update(more);
  return config;
}

ModelConfig ParsedRecurrent(const json& config) {
  const auto parsed = ParseModelConfig(config.dump(), "", "m");
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return parsed.value_or(ModelConfig{});
}

std::string RecurrentRefusal(const json& config) {
  const auto parsed = ParseModelConfig(config.dump(), "", "m");
  return parsed.ok() ? "accepted" : std::string(parsed.status().message());
}

std::vector<bool> HaveStates(const ModelConfig& config) {
  std::vector<bool> states;
  for (const LayerSpec& layer : config.layers) {
    states.push_back(layer.attention.recurrent.has_value());
  }
  return states;
}

TensorPlace PlaceOfState(const ModelConfig& config, TensorRole role) {
  const testing::TempFolder folder;
  folder.Write("model.safetensors", testing::SafetensorsBytes(std::vector<testing::OwnedTensor>{}));
  const auto nothing = Checkpoint::Open(folder.path());
  EXPECT_TRUE(nothing.ok());
  return TensorPlaces(config, *FindModelFamily(config.model_type)->names, *nothing).Of({role, 0});
}

TEST(RecurrentFamilies, EveryFourthLayerOfQwenHasAttentionUnlessTheFileNamesThem) {
  EXPECT_THAT(HaveStates(ParsedRecurrent(RecurrentSizes("qwen3_next"))),
              ElementsAre(true, true, true, false));
  const json types = {"full_attention", "linear_attention", "full_attention", "linear_attention"};
  EXPECT_THAT(HaveStates(ParsedRecurrent(RecurrentSizes("qwen3_5_text", {{"layer_types", types}}))),
              ElementsAre(false, true, false, true));
  EXPECT_THAT(RecurrentRefusal(RecurrentSizes("qwen3_5_text", {{"layer_types", {"mamba"}}})),
              AllOf(HasSubstr("layer_types"), HasSubstr("linear_attention")));
}

TEST(RecurrentFamilies, QwenHasGatesAndNormsLessOne) {
  const ModelConfig config = ParsedRecurrent(RecurrentSizes("qwen3_next"));
  EXPECT_EQ(config.norm_weight_offset, 1);
  EXPECT_TRUE(config.layers[3].attention.output_gate && config.layers[3].attention.qk_norm);
  EXPECT_EQ(MixtureOf(config.layers[0])->shared_width, 512);
  EXPECT_TRUE(MixtureOf(config.layers[0])->shared_score);
  EXPECT_THAT(RecurrentRefusal(RecurrentSizes("qwen3_next", {{"attn_output_gate", false}})),
              HasSubstr("attn_output_gate is false; accepted: true"));
  EXPECT_THAT(RecurrentRefusal(RecurrentSizes("qwen3_next", {{"linear_num_key_heads", 3}})),
              HasSubstr("a divisor of linear_num_value_heads, 8"));
}

TEST(RecurrentFamilies, RowsLieWhereTheFilesHaveThem) {
  const ModelConfig next = ParsedRecurrent(RecurrentSizes("qwen3_next"));
  // Of each of four key heads 6 rows of its query, 6 of its key, 20 of values and 20 of gates.
  const TensorPlace gate = PlaceOfState(next, TensorRole::kRecurrentGate);
  EXPECT_EQ(gate.name, "model.layers.0.linear_attn.in_proj_qkvz.weight");
  EXPECT_EQ(gate.stored, (MatrixShape{4 * 52, 16}));
  EXPECT_EQ(gate.StoredRows(21, 9), (IndexRange{52 + 33, 52 + 42}));
  EXPECT_EQ(PlaceOfState(next, TensorRole::kDecay).StoredRows(3, 1), (IndexRange{4 + 3, 4 + 4}));
  const TensorPlace conv = PlaceOfState(next, TensorRole::kConvV);
  EXPECT_EQ(conv.FileShape(), (MatrixShape{128, 4, 128}));
  EXPECT_EQ(conv.StoredRows(0, 5), (IndexRange{48, 53}));
  const ModelConfig granite = ParsedRecurrent(RecurrentSizes("granitemoehybrid"));
  // Gates, values, keys, queries, time steps.
  EXPECT_EQ(PlaceOfState(granite, TensorRole::kRecurrentQ).StoredRows(0, 1).begin, 80 + 80 + 12);
  EXPECT_EQ(PlaceOfState(granite, TensorRole::kDecay).StoredRows(0, 1).begin, 80 + 80 + 24);
  EXPECT_EQ(PlaceOfState(granite, TensorRole::kConvQ).StoredRows(0, 1).begin, 80 + 12);
}

TEST(RecurrentFamilies, GraniteHasModelsWithoutExpertsAndWithoutRotation) {
  const json dense = {{"num_local_experts", 0}, {"shared_intermediate_size", 40}};
  const ModelConfig config = ParsedRecurrent(RecurrentSizes("granitemoehybrid", dense));
  EXPECT_THAT(HaveStates(config), ElementsAre(true, true, true, true));
  EXPECT_EQ(DenseMlpOf(config.layers[0]).width, 40);
  EXPECT_TRUE(config.ropes.empty());
  EXPECT_EQ(config.recurrent()->norm_groups, 1);
  const json rotated = {{"position_embedding_type", "rope"}};
  EXPECT_EQ(ParsedRecurrent(RecurrentSizes("granitemoehybrid", rotated)).ropes.size(), 1);
}

TEST(RecurrentFamilies, LayersOfNemotronAreOneBranchEach) {
  const ModelConfig config =
      ParsedRecurrent(RecurrentSizes("nemotron_h", {{"hybrid_override_pattern", "M-*E"}}));
  EXPECT_THAT(HaveStates(config), ElementsAre(true, false, false, false));
  EXPECT_FALSE(HasMlp(config.layers[0]) || HasMlp(config.layers[2]));
  EXPECT_TRUE(config.layers[1].attention.absent && config.layers[3].attention.absent);
  EXPECT_TRUE(DenseMlpOf(config.layers[1]).squared);
  EXPECT_EQ(MixtureOf(config.layers[3])->shared_width, 12);
  EXPECT_FALSE(HasTensor({TensorRole::kO, 1}, config));
  EXPECT_THAT(RecurrentRefusal(RecurrentSizes("nemotron_h", {{"hybrid_override_pattern", "M-X*"}})),
              HasSubstr("4, letters of M, *, - and E"));
}

// As Python writes a limit that there is none of.
TEST(RecurrentFamilies, StepsOfNemotronMayHaveNoUpperLimit) {
  std::string text =
      RecurrentSizes("nemotron_h", {{"hybrid_override_pattern", "M-*E"}, {"why", "\"Infinity"}})
          .dump();
  text.insert(1, "\"time_step_limit\": [0.5, Infinity], ");
  const auto config = ParseModelConfig(text, "", "m");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->recurrent()->least_step, 0.5F);
  EXPECT_GT(config->recurrent()->most_step, 1e38F);
}

// Heads of states are cut as those of attention, and so are the groups of their norm.
TEST(RecurrentFamilies, RanksShareHeadsAndGroups) {
  const ModelConfig next = ParsedRecurrent(RecurrentSizes("qwen3_next"));
  const ShardPlan second = *MakeShardPlan(next, {.num_ranks = 2, .rank = 1});
  EXPECT_EQ(second.recurrent_heads, (IndexRange{4, 8}));
  EXPECT_EQ(second.recurrent_key_heads, (IndexRange{2, 4}));
  EXPECT_EQ(SliceOf({TensorRole::kRecurrentOut, 0}, next, second).columns, (IndexRange{40, 80}));
  EXPECT_EQ(SliceOf({TensorRole::kConvK, 0}, next, second).rows, (IndexRange{12, 24}));
  const ModelConfig nemotron =
      ParsedRecurrent(RecurrentSizes("nemotron_h", {{"hybrid_override_pattern", "MMM*"}}));
  EXPECT_THAT(AcceptedRankCounts(nemotron), ElementsAre(1, 2));
}

TEST(RecurrentFamilies, SmallProjectionsStayPrecise) {
  const ModelConfig config = ParsedRecurrent(RecurrentSizes("qwen3_5_text"));
  for (const TensorRole role : {TensorRole::kBeta, TensorRole::kDecay, TensorRole::kConvQ}) {
    EXPECT_EQ(FormatOf({role, 0}, config, WeightFormat::kInt8), WeightFormat::kF32);
  }
  EXPECT_EQ(FormatOf({TensorRole::kRecurrentV, 0}, config, WeightFormat::kBF16),
            WeightFormat::kBF16);
}

}  // namespace
}  // namespace sluice
