#include "services/model/model_families.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/model/tensor_roles.h"
#include "tests/services/model/model_folder.h"

namespace sluice {
namespace {

using ::nlohmann::json;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The least that a file of the family holds: sizes.
json Minimal(const std::string& model_type) {
  if (model_type == "gpt2") {
    return {{"model_type", "gpt2"}, {"vocab_size", 10}, {"n_embd", 16},
            {"n_layer", 3},         {"n_head", 4},      {"n_positions", 64}};
  }
  return {{"model_type", model_type},     {"vocab_size", 10},       {"hidden_size", 16},
          {"intermediate_size", 24},      {"num_hidden_layers", 3}, {"num_attention_heads", 4},
          {"max_position_embeddings", 64}};
}

json With(json config, const std::string& field, const json& value) {
  config[field] = value;
  return config;
}

// By layer.
std::vector<int> Windows(const ModelConfig& config) {
  std::vector<int> windows;
  for (const LayerSpec& layer : config.layers) windows.push_back(layer.attention.window);
  return windows;
}

ModelConfig Parsed(const json& config) {
  const auto parsed = ParseModelConfig(config.dump(), "", "m");
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return parsed.value_or(ModelConfig{});
}

std::string Refusal(const json& config) {
  const auto parsed = ParseModelConfig(config.dump(), "", "m");
  return parsed.ok() ? "accepted" : std::string(parsed.status().message());
}

TEST(ModelFamilies, MistralSees4096PositionsUnlessItsFileSaysOtherwise) {
  EXPECT_THAT(Windows(Parsed(Minimal("mistral"))), ElementsAre(4096, 4096, 4096));
  EXPECT_THAT(Windows(Parsed(With(Minimal("mistral"), "sliding_window", 7))), ElementsAre(7, 7, 7));
  EXPECT_THAT(Windows(Parsed(With(Minimal("mistral"), "sliding_window", nullptr))), Each(0));
  EXPECT_THAT(Refusal(With(Minimal("mistral"), "sliding_window", 0)),
              HasSubstr("m/config.json: sliding_window is 0; accepted: an integer from 1 to"));
}

TEST(ModelFamilies, NoWindowIsEmpty) {
  for (const char* type : {"mistral", "phi3", "qwen2", "qwen3", "smollm3"}) {
    for (const json& window : {json(0), json(-1), json(1.5), json("7")}) {
      const json config = With(Minimal(type), "sliding_window", window);
      const std::string refusal = absl::StrCat("m/config.json: sliding_window is ", window.dump(),
                                               "; accepted: an integer from 1 to");
      EXPECT_THAT(Refusal(config), HasSubstr(refusal)) << type;
      EXPECT_THAT(Refusal(With(config, "use_sliding_window", true)), HasSubstr(refusal)) << type;
    }
  }
}

TEST(ModelFamilies, Qwen2HasBiasesOnQueriesKeysAndValuesAlone) {
  const ModelConfig config = Parsed(Minimal("qwen2"));
  EXPECT_TRUE(config.layers.at(0).attention.qkv_bias);
  EXPECT_FALSE(config.layers.at(0).attention.o_bias);
  EXPECT_FALSE(DenseMlpOf(config.layers.at(0)).bias);
  EXPECT_THAT(Windows(config), Each(0));
}

TEST(ModelFamilies, QwenWindowsGoByLayer) {
  json config = With(With(Minimal("qwen2"), "use_sliding_window", true), "sliding_window", 24);
  EXPECT_THAT(Windows(Parsed(config)), ElementsAre(0, 0, 0));  // max_window_layers is 28
  EXPECT_THAT(Windows(Parsed(With(config, "max_window_layers", 1))), ElementsAre(0, 24, 24));
  const json kinds = {"sliding_attention", "full_attention", "sliding_attention"};
  EXPECT_THAT(Windows(Parsed(With(config, "layer_types", kinds))), ElementsAre(24, 0, 24));
  EXPECT_THAT(Refusal(With(config, "layer_types", {"full_attention"})),
              HasSubstr("layer_types is [\"full_attention\"]; accepted: a list of "
                        "num_hidden_layers, 3"));
  EXPECT_THAT(Refusal(With(config, "layer_types", {"full_attention", "linear", 3})),
              HasSubstr("layer_types is"));
  EXPECT_THAT(Refusal(With(config, "sliding_window", -2)), HasSubstr("sliding_window is -2"));
}

TEST(ModelFamilies, Qwen3NormalisesQueriesAndKeys) {
  const ModelConfig config = Parsed(Minimal("qwen3"));
  EXPECT_TRUE(config.layers.at(0).attention.qk_norm);
  EXPECT_EQ(config.head_dim, 128);
  EXPECT_FALSE(config.layers.at(0).attention.qkv_bias);
  EXPECT_TRUE(Parsed(With(Minimal("qwen3"), "attention_bias", true)).layers.at(0).attention.o_bias);
}

// By layer.
std::vector<bool> Rotates(const ModelConfig& config) {
  std::vector<bool> rotates;
  for (const LayerSpec& layer : config.layers) {
    rotates.push_back(layer.attention.rope.has_value());
  }
  return rotates;
}

TEST(ModelFamilies, SmolLm3RotatesInThreeLayersOfFourUnlessItsFileSaysOtherwise) {
  const json config = With(Minimal("smollm3"), "num_hidden_layers", 5);
  const ModelConfig plain = Parsed(config);
  EXPECT_THAT(Rotates(plain), ElementsAre(true, true, true, false, true));
  EXPECT_EQ(plain.ropes.at(0).theta, 2e6);
  EXPECT_TRUE(plain.tied_embeddings);
  EXPECT_THAT(Rotates(Parsed(With(config, "no_rope_layer_interval", 2))),
              ElementsAre(true, false, true, false, true));
  EXPECT_THAT(Rotates(Parsed(With(config, "no_rope_layers", {0, 1, 1, 1, 0}))),
              ElementsAre(false, true, true, true, false));
  EXPECT_THAT(Rotates(Parsed(With(config, "no_rope_layer_interval", 1))), Each(false));
  EXPECT_THAT(Refusal(With(config, "no_rope_layers", {0, 1})),
              HasSubstr("no_rope_layers is [0,1]; accepted: a list of num_hidden_layers, 5, times "
                        "1 or 0"));
  EXPECT_THAT(Refusal(With(config, "no_rope_layers", {0, 1, 2, 1, 1})),
              HasSubstr("no_rope_layers is [0,1,2,1,1]"));
  EXPECT_THAT(Refusal(With(config, "no_rope_layer_interval", 0)),
              HasSubstr("no_rope_layer_interval is 0"));
}

TEST(ModelFamilies, SmolLm3HasWindowsInLayersThatDoNotRotate) {
  json config = With(With(Minimal("smollm3"), "no_rope_layers", {1, 0, 1}), "sliding_window", 9);
  EXPECT_THAT(Windows(Parsed(config)), Each(0));
  config["use_sliding_window"] = true;
  EXPECT_THAT(Windows(Parsed(config)), ElementsAre(0, 9, 0));
  const json kinds = {"sliding_attention", "full_attention", "full_attention"};
  EXPECT_THAT(Windows(Parsed(With(config, "layer_types", kinds))), ElementsAre(9, 0, 0));
  EXPECT_THAT(Windows(Parsed(With(config, "sliding_window", nullptr))), Each(0));
}

TEST(ModelFamilies, GemmaScalesEmbeddingsAndOffsetsNorms) {
  const ModelConfig config = Parsed(With(Minimal("gemma"), "hidden_act", "gelu"));
  EXPECT_EQ(config.head_dim, 256);
  EXPECT_EQ(config.embedding_scale, 4);
  EXPECT_EQ(config.norm_weight_offset, 1);
  EXPECT_EQ(DenseMlpOf(config.layers.at(0)).activation, Activation::kGeluTanh);
  EXPECT_TRUE(DenseMlpOf(config.layers.at(0)).gated);
  EXPECT_TRUE(config.tied_embeddings);
  const ModelConfig named = Parsed(With(Minimal("gemma"), "hidden_activation", "gelu"));
  EXPECT_EQ(DenseMlpOf(named.layers.at(0)).activation, Activation::kGelu);
}

TEST(ModelFamilies, Gemma2NormsBranchesAndCapsScoresAndLogits) {
  const ModelConfig config = Parsed(Minimal("gemma2"));
  const LayerSpec& layer = config.layers.at(0);
  EXPECT_TRUE(layer.norms.before_attention && layer.norms.before_mlp);
  EXPECT_TRUE(layer.norms.after_attention && layer.norms.after_mlp);
  EXPECT_EQ(layer.attention.scale, 1 / 16.0F);
  EXPECT_EQ(layer.attention.softcap, 50);
  EXPECT_EQ(config.logit_softcap, 30);
  EXPECT_THAT(Windows(config), ElementsAre(4096, 0, 4096));
  const ModelConfig uncapped =
      Parsed(With(With(With(Minimal("gemma2"), "attn_logit_softcapping", nullptr),
                       "final_logit_softcapping", nullptr),
                  "query_pre_attn_scalar", 4));
  EXPECT_EQ(uncapped.layers.at(0).attention.softcap, 0);
  EXPECT_EQ(uncapped.logit_softcap, 0);
  EXPECT_EQ(uncapped.layers.at(0).attention.scale, 0.5F);
  EXPECT_THAT(Refusal(With(Minimal("gemma2"), "final_logit_softcapping", -1)),
              HasSubstr("final_logit_softcapping is -1"));
}

// The index of each layer's rotation; -1: none.
std::vector<int> RopesOf(const ModelConfig& config) {
  std::vector<int> ropes;
  for (const LayerSpec& layer : config.layers) ropes.push_back(layer.attention.rope.value_or(-1));
  return ropes;
}

TEST(ModelFamilies, Gemma3RotatesLayersWithWindowsByABaseOfTheirOwn) {
  json file = With(With(Minimal("gemma3_text"), "sliding_window_pattern", 3), "sliding_window", 9);
  file["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 8}};
  const ModelConfig config = Parsed(file);
  EXPECT_THAT(Windows(config), ElementsAre(9, 9, 0));
  EXPECT_THAT(RopesOf(config), ElementsAre(1, 1, 0));
  EXPECT_EQ(config.ropes.at(0).theta, 1e6);
  EXPECT_EQ(config.ropes.at(0).scaling, RopeScaling::kLinear);
  EXPECT_EQ(config.ropes.at(1).theta, 10000);
  EXPECT_EQ(config.ropes.at(1).scaling, RopeScaling::kNone);
  EXPECT_EQ(config.max_positions, 64);  // what the file names is what is reached
  EXPECT_TRUE(config.layers.at(0).attention.qk_norm);
  EXPECT_EQ(config.layers.at(0).attention.softcap, 0);
  EXPECT_EQ(Parsed(With(file, "rope_local_base_freq", 500)).ropes.at(1).theta, 500);
}

json Gemma4() {
  json file = With(Minimal("gemma4_text"), "sliding_window", 9);
  file.update({{"num_hidden_layers", 6},
               {"head_dim", 8},
               {"global_head_dim", 16},
               {"hidden_size_per_layer_input", 0},
               {"layer_types",
                {"sliding_attention", "full_attention", "sliding_attention", "sliding_attention",
                 "full_attention", "sliding_attention"}}});
  return file;
}

TEST(ModelFamilies, Gemma4HasHeadsOfTwoSizes) {
  json file = Gemma4();
  file.update({{"attention_k_eq_v", true}, {"num_global_key_value_heads", 1}});
  const ModelConfig config = Parsed(file);
  EXPECT_THAT(Windows(config), ElementsAre(9, 0, 9, 9, 0, 0));  // the last one always sees all
  EXPECT_THAT(RopesOf(config), ElementsAre(1, 0, 1, 1, 0, 0));
  EXPECT_EQ(config.head_dim_of(0), 8);
  EXPECT_EQ(config.head_dim_of(1), 16);
  EXPECT_EQ(config.kv_heads_of(1), 1);
  EXPECT_TRUE(config.layers.at(1).attention.keys_as_values);
  EXPECT_FALSE(config.layers.at(0).attention.keys_as_values);
  EXPECT_TRUE(config.layers.at(0).attention.value_norm && config.layers.at(0).output_factor);
  EXPECT_EQ(config.layers.at(0).attention.scale, 1);
  const RopeConfig& full = config.ropes.at(0);
  EXPECT_EQ(full.scaling, RopeScaling::kProportional);
  EXPECT_EQ(full.dim, 16);
  EXPECT_EQ(full.turned_pairs, 2);
  EXPECT_EQ(config.ropes.at(1).dim, 8);
  EXPECT_EQ(config.row_width(), config.hidden_size);
  file["num_global_key_value_heads"] = 3;
  EXPECT_THAT(Refusal(file), HasSubstr("num_global_key_value_heads is 3; accepted: a divisor"));
}

TEST(ModelFamilies, Gemma4SharesKeysAndValuesAndHasEmbeddingsForLayers) {
  json file = Gemma4();
  file.update({{"num_kv_shared_layers", 2},
               {"use_double_wide_mlp", true},
               {"hidden_size_per_layer_input", 4}});
  const ModelConfig config = Parsed(file);
  std::vector<int> sources;
  for (const LayerSpec& layer : config.layers) sources.push_back(layer.attention.kv_source);
  EXPECT_THAT(sources, ElementsAre(-1, -1, -1, -1, 1, 1));
  EXPECT_EQ(DenseMlpOf(config.layers.at(4)).width, 2 * DenseMlpOf(config.layers.at(3)).width);
  EXPECT_FALSE(HasTensor({TensorRole::kK, 4}, config));
  EXPECT_TRUE(HasTensor({TensorRole::kK, 3}, config));
  EXPECT_EQ(config.row_width(), config.hidden_size + 6 * 4);
  EXPECT_EQ(ShapeOf({TensorRole::kSideEmbedding}, config), (MatrixShape{config.vocab_size, 24}));
  file["num_kv_shared_layers"] = 5;
  EXPECT_THAT(Refusal(file), HasSubstr("a number that leaves a layer of each kind its own"));
  file["num_kv_shared_layers"] = 2;
  file["vocab_size_per_layer_input"] = config.vocab_size + 1;
  EXPECT_THAT(Refusal(file), HasSubstr("vocab_size_per_layer_input"));
}

TEST(ModelFamilies, Gemma4HasExpertsBesideAnMlp) {
  json file = Gemma4();
  file.update({{"enable_moe_block", true},
               {"num_experts", 4},
               {"top_k_experts", 2},
               {"moe_intermediate_size", 12}});
  const ModelConfig config = Parsed(file);
  const MixtureSpec* mixture = MixtureOf(config.layers.at(2));
  ASSERT_NE(mixture, nullptr);
  EXPECT_EQ(mixture->expert.width, 12);
  ASSERT_TRUE(mixture->beside.has_value());
  EXPECT_TRUE(mixture->expert_factors && mixture->router.normalised);
  for (const TensorRole role : {TensorRole::kDown, TensorRole::kMixtureNorm,
                                TensorRole::kRouterScale, TensorRole::kExpertFactors}) {
    EXPECT_TRUE(HasTensor({role, 2}, config));
  }
  EXPECT_EQ(ShapeOf({TensorRole::kDown, 2}, config).columns, mixture->beside->width);
  EXPECT_EQ(ShapeOf({TensorRole::kDown, 2, 3}, config).columns, 12);
  file["top_k_experts"] = 5;
  EXPECT_THAT(Refusal(file), HasSubstr("top_k_experts is 5"));
}

TEST(ModelFamilies, Gemma3TakesARotationForEachKindOfLayer) {
  json file = Minimal("gemma3_text");
  file["rope_parameters"] = {
      {"full_attention", {{"rope_type", "linear"}, {"factor", 8}, {"rope_theta", 5e5}}},
      {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 700}}}};
  const ModelConfig config = Parsed(file);
  EXPECT_EQ(config.ropes.at(0).theta, 5e5);
  EXPECT_EQ(config.ropes.at(0).factor, 8);
  EXPECT_EQ(config.ropes.at(1).theta, 700);
  file["rope_parameters"].erase("sliding_attention");
  EXPECT_THAT(Refusal(file), HasSubstr("sliding_attention"));
  file["model_type"] = "llama";
  EXPECT_THAT(Refusal(file), HasSubstr("one rotation for all layers"));
}

TEST(ModelFamilies, Gemma3FilesMayLeaveOutSizes) {
  json file = Minimal("gemma3_text");
  for (const char* name : {"vocab_size", "num_attention_heads", "max_position_embeddings"}) {
    file.erase(name);
  }
  const ModelConfig config = Parsed(file);
  EXPECT_EQ(config.vocab_size, 262208);
  EXPECT_EQ(config.num_heads, 8);
  EXPECT_EQ(config.num_kv_heads, 4);
  EXPECT_EQ(config.head_dim, 256);
  EXPECT_EQ(config.max_positions, 131072);
}

TEST(ModelFamilies, TextModelsAreFoundInFilesOfSeveral) {
  json text = Minimal("gemma3_text");
  text.erase("model_type");
  const json all = {{"model_type", "gemma3"},
                    {"text_config", text},
                    {"vision_config", {{"hidden_size", 1152}}},
                    {"tie_word_embeddings", false},
                    {"eos_token_id", {1, 7}}};
  const ModelConfig config = Parsed(all);
  EXPECT_EQ(config.model_type, "gemma3_text");
  EXPECT_EQ(config.hidden_size, 16);
  EXPECT_FALSE(config.tied_embeddings);
  EXPECT_THAT(config.eos_token_ids, ElementsAre(1, 7));
  const json mistral = {{"model_type", "mistral3"}, {"text_config", Minimal("mistral")}};
  EXPECT_EQ(Parsed(mistral).model_type, "mistral");
  json wrong = all;
  wrong["text_config"]["hidden_size"] = -1;
  EXPECT_THAT(Refusal(wrong), HasSubstr("text_config.hidden_size is -1"));
  wrong["text_config"] = {{"model_type", "qwen9"}};
  EXPECT_THAT(Refusal(wrong), HasSubstr("model_type \"qwen9\" is not supported"));
}

TEST(ModelFamilies, GraniteAndMiniCpmMultiplyByConstants) {
  json file = With(With(Minimal("granite"), "embedding_multiplier", 6), "logits_scaling", 4);
  file.update({{"attention_multiplier", 0.1}, {"residual_multiplier", 0.4}});
  const ModelConfig granite = Parsed(file);
  EXPECT_EQ(granite.embedding_scale, 6);
  EXPECT_EQ(granite.logit_scale, 0.25F);
  EXPECT_EQ(granite.layers.at(0).attention.scale, 0.1F);
  EXPECT_EQ(granite.layers.at(0).residual_multiplier, 0.4F);
  file = With(With(Minimal("minicpm"), "scale_emb", 12), "dim_model_base", 4);
  const ModelConfig minicpm = Parsed(With(With(file, "scale_depth", 3), "num_hidden_layers", 9));
  EXPECT_EQ(minicpm.embedding_scale, 12);
  EXPECT_EQ(minicpm.logit_scale, 0.25F);
  EXPECT_EQ(minicpm.layers.at(0).residual_multiplier, 1);
  EXPECT_TRUE(minicpm.tied_embeddings);
}

TEST(ModelFamilies, OlmoNormsWhatBranchesAddAndAllHeadsAtOnce) {
  const LayerSpec layer = Parsed(Minimal("olmo2")).layers.at(0);
  EXPECT_FALSE(layer.norms.before_attention || layer.norms.before_mlp);
  EXPECT_TRUE(layer.norms.after_attention && layer.norms.after_mlp);
  EXPECT_EQ(layer.attention.qk_norm_kind, QkNormKind::kWholeRms);
  json file = With(Minimal("olmo3"), "num_hidden_layers", 4);
  file["rope_scaling"] = {{"rope_type", "yarn"}, {"factor", 4}};
  const ModelConfig third = Parsed(file);
  EXPECT_THAT(Windows(third), ElementsAre(4096, 4096, 4096, 0));
  EXPECT_THAT(RopesOf(third), ElementsAre(1, 1, 1, 0));
  EXPECT_EQ(third.ropes.at(0).scaling, RopeScaling::kYarn);
  EXPECT_EQ(third.ropes.at(1).scaling, RopeScaling::kNone);
}

TEST(ModelFamilies, CohereHasOneNormWithoutBiasForBothBranches) {
  const ModelConfig config = Parsed(With(Minimal("cohere"), "use_qk_norm", true));
  const LayerSpec& layer = config.layers.at(0);
  EXPECT_TRUE(layer.parallel_residual);
  EXPECT_FALSE(layer.norms.before_mlp);
  EXPECT_EQ(config.norm, NormKind::kLayerNorm);
  EXPECT_FALSE(config.norm_bias);
  EXPECT_EQ(config.logit_scale, 0.0625F);
  EXPECT_TRUE(config.ropes.at(0).interleaved);
  EXPECT_EQ(layer.attention.qk_norm_kind, QkNormKind::kOwnHeadLayer);
  const ModelConfig second = Parsed(With(Minimal("cohere2"), "sliding_window_pattern", 2));
  EXPECT_THAT(Windows(second), ElementsAre(4096, 0, 4096));
  EXPECT_THAT(RopesOf(second), ElementsAre(0, -1, 0));
}

TEST(ModelFamilies, Ministral3LetsQueriesGrow) {
  json file = Minimal("ministral3");
  EXPECT_FALSE(Parsed(file).layers.at(0).attention.growth.has_value());
  file["rope_parameters"] = {{"rope_type", "yarn"},
                             {"factor", 4},
                             {"original_max_position_embeddings", 32},
                             {"llama_4_scaling_beta", 0.1}};
  const auto growth = Parsed(file).layers.at(0).attention.growth;
  ASSERT_TRUE(growth.has_value());
  EXPECT_EQ(growth->beta, 0.1F);
  EXPECT_EQ(growth->unit, 32);
}

TEST(ModelFamilies, OthersHaveSwitchesOfTheirOwn) {
  const ModelConfig glm = Parsed(With(Minimal("glm4"), "attention_bias", true));
  EXPECT_EQ(glm.ropes.at(0).dim, 64);  // half of a head of 128
  EXPECT_TRUE(glm.ropes.at(0).interleaved && glm.layers.at(0).attention.qkv_bias);
  EXPECT_FALSE(glm.layers.at(0).attention.o_bias);
  EXPECT_TRUE(glm.layers.at(0).norms.after_mlp);
  const LayerSpec ernie = Parsed(With(Minimal("ernie4_5"), "use_bias", true)).layers.at(0);
  EXPECT_TRUE(ernie.attention.qkv_bias && ernie.attention.o_bias && DenseMlpOf(ernie).bias);
  const ModelConfig phi = Parsed(Minimal("phi"));
  EXPECT_TRUE(phi.head_bias && phi.norm_bias && phi.layers.at(0).parallel_residual);
  EXPECT_EQ(phi.ropes.at(0).dim, 2);
  const LayerSpec star = Parsed(Minimal("starcoder2")).layers.at(0);
  EXPECT_TRUE(star.attention.o_bias && DenseMlpOf(star).bias && !DenseMlpOf(star).gated);
  json file = With(Minimal("stablelm"), "hidden_size", 32);
  EXPECT_EQ(Parsed(file).ropes.at(0).dim, 2);
  EXPECT_TRUE(Parsed(file).layers.at(0).norms.before_mlp);
  file["use_parallel_residual"] = true;
  EXPECT_FALSE(Parsed(file).layers.at(0).norms.before_mlp);
  EXPECT_TRUE(Parsed(With(Minimal("internlm2"), "bias", true)).layers.at(0).attention.o_bias);
  EXPECT_THAT(Windows(Parsed(Minimal("ministral"))), Each(4096));
}

TEST(ModelFamilies, Phi3MeansLongRopeByOlderNamesToo) {
  const json lists = {{"short_factor", {1, 2}}, {"long_factor", {3, 4}}};
  for (const char* type : {"longrope", "su", "yarn"}) {
    const ModelConfig config =
        Parsed(With(Minimal("phi3"), "rope_scaling", With(lists, "type", type)));
    EXPECT_EQ(config.ropes.at(0).scaling, RopeScaling::kLongRope);
    EXPECT_EQ(config.ropes.at(0).original_positions, 4096);
    EXPECT_EQ(config.norm_eps, 1e-5F);
    EXPECT_THAT(Windows(config), Each(0));
  }
  EXPECT_THAT(Windows(Parsed(With(Minimal("phi3"), "sliding_window", 5))), Each(5));
}

TEST(ModelFamilies, Gpt2HasNamesOfItsOwn) {
  const ModelConfig config = Parsed(Minimal("gpt2"));
  EXPECT_EQ(config.hidden_size, 16);
  EXPECT_EQ(DenseMlpOf(config.layers.at(0)).width, 64);
  EXPECT_EQ(config.head_dim, 4);
  EXPECT_EQ(config.norm, NormKind::kLayerNorm);
  EXPECT_EQ(config.norm_eps, 1e-5F);
  EXPECT_EQ(config.position, PositionKind::kLearned);
  EXPECT_EQ(DenseMlpOf(config.layers.at(0)).activation, Activation::kGeluTanh);
  EXPECT_FALSE(DenseMlpOf(config.layers.at(0)).gated);
  EXPECT_TRUE(config.tied_embeddings);
  EXPECT_TRUE(config.norm_bias && config.layers.at(0).attention.qkv_bias &&
              config.layers.at(0).attention.o_bias && DenseMlpOf(config.layers.at(0)).bias);
  EXPECT_EQ(config.layers.at(2).attention.scale, 0.5F);
  const ModelConfig narrow = Parsed(With(Minimal("gpt2"), "n_inner", 20));
  EXPECT_EQ(DenseMlpOf(narrow.layers.at(0)).width, 20);
  EXPECT_THAT(Refusal(With(Minimal("gpt2"), "n_head", 3)),
              HasSubstr("n_embd is 16; accepted: a multiple of n_head, 3"));
  EXPECT_THAT(Refusal(With(Minimal("gpt2"), "activation_function", "tanh")),
              AllOf(HasSubstr("activation_function is \"tanh\""), HasSubstr("\"gelu_new\"")));
}

TEST(ModelFamilies, Gpt2ScalesScoresAsItsFileSays) {
  EXPECT_EQ(Parsed(With(Minimal("gpt2"), "scale_attn_weights", false)).layers.at(1).attention.scale,
            1);
  const ModelConfig by_layer =
      Parsed(With(Minimal("gpt2"), "scale_attn_by_inverse_layer_idx", true));
  EXPECT_EQ(by_layer.layers.at(0).attention.scale, 0.5F);
  EXPECT_EQ(by_layer.layers.at(1).attention.scale, 0.25F);
}

TEST(ModelFamilies, GptNeoxTurnsAQuarterOfAHead) {
  json minimal = With(Minimal("gpt_neox"), "hidden_size", 32);
  const ModelConfig config = Parsed(minimal);
  EXPECT_EQ(config.ropes.at(0).dim, 2);
  EXPECT_TRUE(config.layers.at(0).parallel_residual);
  EXPECT_EQ(DenseMlpOf(config.layers.at(0)).activation, Activation::kGelu);
  EXPECT_TRUE(config.norm_bias && config.layers.at(0).attention.qkv_bias &&
              config.layers.at(0).attention.o_bias && DenseMlpOf(config.layers.at(0)).bias);
  EXPECT_FALSE(config.tied_embeddings);
  EXPECT_EQ(Parsed(With(minimal, "rotary_pct", 1.0)).ropes.at(0).dim, 8);
  EXPECT_EQ(Parsed(With(minimal, "rotary_emb_base", 500)).ropes.at(0).theta, 500);
  EXPECT_THAT(Refusal(Minimal("gpt_neox")),
              HasSubstr("rotary positions would turn 1 of 4 elements of a head, 0.25 of them"));
  EXPECT_THAT(Refusal(With(minimal, "num_key_value_heads", 2)),
              HasSubstr("num_key_value_heads is 2; accepted: none"));
}

TEST(ModelFamilies, TheTextbookFamilyNamesEverySwitch) {
  const ModelConfig plain = Parsed(Minimal("sluice_decoder"));
  EXPECT_EQ(plain.position, PositionKind::kNone);
  EXPECT_EQ(plain.layers.at(0).attention.rope, 0);
  EXPECT_FALSE(plain.ropes.at(0).interleaved);
  EXPECT_EQ(plain.norm, NormKind::kRmsNorm);
  EXPECT_EQ(plain.norm_eps, 1e-5F);
  EXPECT_TRUE(DenseMlpOf(plain.layers.at(0)).gated);
  EXPECT_FALSE(plain.layers.at(0).attention.qkv_bias || plain.norm_bias);
  json config = Minimal("sluice_decoder");
  config.update({{"position", "sinusoidal"},
                 {"norm", "layernorm"},
                 {"mlp", "relu"},
                 {"with_bias", true},
                 {"norm_eps", 0.5}});
  const ModelConfig other = Parsed(config);
  EXPECT_EQ(other.position, PositionKind::kSinusoidal);
  EXPECT_FALSE(other.layers.at(0).attention.rope.has_value());
  EXPECT_EQ(other.norm, NormKind::kLayerNorm);
  EXPECT_EQ(other.norm_eps, 0.5F);
  EXPECT_EQ(DenseMlpOf(other.layers.at(0)).activation, Activation::kRelu);
  EXPECT_FALSE(DenseMlpOf(other.layers.at(0)).gated);
  EXPECT_TRUE(other.layers.at(0).attention.qkv_bias && other.layers.at(0).attention.o_bias &&
              DenseMlpOf(other.layers.at(0)).bias && other.norm_bias);
  EXPECT_TRUE(Parsed(With(config, "position", "rope_interleaved")).ropes.at(0).interleaved);
  EXPECT_THAT(Refusal(With(config, "position", "alibi")),
              HasSubstr("position is \"alibi\"; accepted: \"rope_interleaved\", \"rope_half\", "
                        "\"learned\", \"sinusoidal\", \"none\""));
  EXPECT_THAT(Refusal(With(config, "mlp", 7)), HasSubstr("mlp is 7"));
  EXPECT_THAT(Refusal(With(config, "norm", "batchnorm")), HasSubstr("norm is \"batchnorm\""));
}

TEST(ModelFamilies, EveryRotaryFamilyWantsEvenHeads) {
  for (const char* type :
       {"llama", "mistral", "qwen2", "qwen3", "smollm3", "gemma", "phi3", "sluice_decoder"}) {
    EXPECT_THAT(Refusal(With(Minimal(type), "head_dim", 7)),
                HasSubstr("m/config.json: head_dim is 7; accepted: an even head_dim"))
        << type;
  }
  EXPECT_THAT(Refusal(With(With(Minimal("gpt_neox"), "head_dim", 7), "rotary_pct", 1)),
              HasSubstr("m/config.json: head_dim is 7; accepted: an even head_dim"));
}

// Fields that only some positions need don't matter to the others.
TEST(ModelFamilies, OnlyRotaryHeadsMustBeEven) {
  json config = With(Minimal("sluice_decoder"), "head_dim", 3);
  EXPECT_THAT(Refusal(config), HasSubstr("head_dim is 3; accepted: an even head_dim"));
  EXPECT_EQ(Parsed(With(config, "position", "none")).head_dim, 3);
}

// ---- Latent attention ----

// All layers are dense.
json Latent(const std::string& model_type) {
  return With(With(Minimal(model_type), "first_k_dense_replace", 3), "moe_intermediate_size", 8);
}

TEST(ModelFamilies, LatentAttentionHasTheSizesOfTheFirstModels) {
  const ModelConfig config = Parsed(Latent("deepseek_v3"));
  ASSERT_NE(config.latent(), nullptr);
  const LatentSpec& latent = *config.latent();
  EXPECT_EQ(latent.query_rank, 1536);
  EXPECT_EQ(latent.rank, 512);
  EXPECT_EQ(latent.query_dim(), 192);
  EXPECT_EQ(latent.stored_dim(), 576);
  EXPECT_EQ(config.value_width(0), 4 * 128);
  EXPECT_FLOAT_EQ(config.layers.at(0).attention.scale, 1 / std::sqrt(192.0F));
  EXPECT_EQ(config.ropes.at(0).dim, 64);
  EXPECT_TRUE(config.ropes.at(0).interleaved);
  EXPECT_EQ(Parsed(Latent("glm4_moe_lite")).latent()->query_dim(), 256);
  EXPECT_EQ(Parsed(Latent("kimi_k2")).latent()->stored_dim(), 576);
}

TEST(ModelFamilies, QueriesHaveALatentUnlessItsRankIsNull) {
  EXPECT_EQ(Parsed(Latent("deepseek_v2")).latent()->query_rank, 1536);
  EXPECT_EQ(Parsed(With(Latent("deepseek_v2"), "q_lora_rank", 40)).latent()->query_rank, 40);
  EXPECT_EQ(Parsed(With(Latent("deepseek_v2"), "q_lora_rank", nullptr)).latent()->query_rank, 0);
}

// Whatever head_dim says, which some files have for the rotated part.
TEST(ModelFamilies, LatentAttentionNamesItsHeadsBySizesOfTheirOwn) {
  json config = With(With(Latent("deepseek_v3"), "head_dim", 64), "qk_nope_head_dim", 24);
  EXPECT_EQ(Parsed(config).head_dim, 24 + 64);
  EXPECT_THAT(Refusal(With(config, "qk_rope_head_dim", 7)),
              HasSubstr("qk_rope_head_dim is 7; accepted: an even number from 2 to"));
  EXPECT_THAT(Refusal(With(config, "kv_lora_rank", 33)), HasSubstr("kv_lora_rank is 33"));
  EXPECT_THAT(Refusal(With(config, "v_head_dim", 0)), HasSubstr("v_head_dim is 0"));
}

TEST(ModelFamilies, YarnMultipliesTheScaleOfLatentAttention) {
  const json yarn = {{"type", "yarn"},
                     {"factor", 40},
                     {"original_max_position_embeddings", 64},
                     {"mscale", 0.5},
                     {"mscale_all_dim", 1.0}};
  const ModelConfig config = Parsed(With(Latent("deepseek_v3"), "rope_scaling", yarn));
  const double all = 0.1 * std::log(40.0) + 1, some = 0.05 * std::log(40.0) + 1;
  EXPECT_NEAR(config.layers.at(2).attention.scale, all * all / std::sqrt(192.0), 1e-7);
  EXPECT_NEAR(config.ropes.at(0).attention_factor, some / all, 1e-12);
  // By head nothing but the rotated elements are concerned.
  EXPECT_FLOAT_EQ(Parsed(With(Minimal("llama"), "rope_scaling", yarn)).layers.at(0).attention.scale,
                  0.5F);
}

TEST(ModelFamilies, LatentFamiliesHaveMixturesBehindTheirFirstLayers) {
  const ModelConfig config = Parsed(With(Latent("deepseek_v3"), "first_k_dense_replace", 1));
  EXPECT_EQ(MixtureOf(config.layers.at(0)), nullptr);
  ASSERT_NE(MixtureOf(config.layers.at(1)), nullptr);
  EXPECT_EQ(MixtureOf(config.layers.at(1))->router.num_experts, 256);
  EXPECT_TRUE(config.layers.at(2).attention.latent.has_value());
}

// ---- Encoder-decoders ----

json MinimalT5(const std::string& model_type) {
  return {
      {"model_type", model_type}, {"vocab_size", 10}, {"d_model", 16}, {"d_kv", 8}, {"d_ff", 24},
      {"num_layers", 3},          {"num_heads", 2}};
}

json MinimalBart(const std::string& model_type) {
  return {
      {"model_type", model_type},      {"vocab_size", 10},        {"d_model", 16},
      {"encoder_layers", 2},           {"decoder_layers", 3},     {"encoder_attention_heads", 4},
      {"decoder_attention_heads", 4},  {"encoder_ffn_dim", 24},   {"decoder_ffn_dim", 20},
      {"max_position_embeddings", 50}, {"forced_bos_token_id", 6}};
}

TEST(ModelFamilies, T5HasTwoSidesAndNoPositionsButRelativeOnes) {
  const ModelConfig config = Parsed(With(MinimalT5("t5"), "num_decoder_layers", 2));
  ASSERT_TRUE(config.source.has_value());
  EXPECT_EQ(config.source->num_layers, 3);
  EXPECT_EQ(config.num_layers(), 5);
  EXPECT_FALSE(config.is_encoder());
  EXPECT_EQ(config.layers[2].reads, LayerSpec::Reads::kSource);
  EXPECT_EQ(config.layers[3].reads, LayerSpec::Reads::kTextAndSource);
  EXPECT_EQ(config.layers[2].attention.ahead, kAllAhead);
  EXPECT_EQ(config.layers[3].attention.ahead, 0);
  EXPECT_EQ(config.layers[0].attention.scale, 1);
  EXPECT_EQ(config.layers[0].attention.relative->buckets, 32);
  EXPECT_TRUE(config.layers[2].norms.leaving);
  EXPECT_FALSE(config.layers[1].norms.leaving);
  EXPECT_TRUE(config.tied_embeddings);
  EXPECT_FLOAT_EQ(config.logit_scale, 0.25F);
  EXPECT_EQ(config.head_dim, 8);
  EXPECT_FALSE(DenseMlpOf(config.layers[0]).gated);
  EXPECT_EQ(config.source->start_token_id, 0);
  const ModelConfig newer = Parsed(MinimalT5("mt5"));
  EXPECT_TRUE(DenseMlpOf(newer.layers[0]).gated);
  EXPECT_EQ(DenseMlpOf(newer.layers[0]).activation, Activation::kGeluTanh);
  EXPECT_FALSE(newer.tied_embeddings);
  EXPECT_EQ(newer.logit_scale, 1);
  EXPECT_THAT(Refusal(With(MinimalT5("t5"), "feed_forward_proj", "gated-tanh")),
              HasSubstr("feed_forward_proj is \"gated-tanh\"; accepted: \"relu\""));
  EXPECT_THAT(Refusal(With(MinimalT5("t5"), "relative_attention_max_distance", 16)),
              HasSubstr("accepted: more than half of relative_attention_num_buckets, 16"));
}

TEST(ModelFamilies, BartAndItsRelativesDifferInNormsAndPositions) {
  const ModelConfig bart = Parsed(MinimalBart("bart"));
  EXPECT_EQ(bart.source->start_token_id, 2);
  EXPECT_EQ(bart.source->forced_bos_token_id, 6);
  EXPECT_EQ(bart.source->max_positions, 50);
  EXPECT_EQ(bart.max_positions, 64 + 50);  // a source filled up, and a text
  EXPECT_TRUE(bart.layers[4].norms.of_sum && bart.embedding_norm && bart.head_bias);
  EXPECT_FALSE(bart.final_norm || bart.layers[1].norms.leaving);
  EXPECT_EQ(DenseMlpOf(bart.layers[1]).width, 24);
  EXPECT_EQ(DenseMlpOf(bart.layers[2]).width, 20);
  EXPECT_EQ(ShapeOf({TensorRole::kPositions}, bart).rows, 52);
  EXPECT_EQ(ShapeOf({TensorRole::kSourcePositions}, bart).rows, 52);
  EXPECT_TRUE(HasTensor({TensorRole::kCrossPostNorm, 2}, bart));
  EXPECT_FALSE(HasTensor({TensorRole::kCrossQ, 1}, bart));
  const ModelConfig mbart = Parsed(With(MinimalBart("mbart"), "scale_embedding", true));
  EXPECT_TRUE(mbart.final_norm && mbart.layers[1].norms.leaving);
  EXPECT_EQ(mbart.embedding_scale, 4);
  EXPECT_TRUE(HasTensor({TensorRole::kCrossNorm, 2}, mbart));
  const ModelConfig marian = Parsed(With(MinimalBart("marian"), "pad_token_id", 9));
  EXPECT_EQ(marian.position, PositionKind::kSplitSinusoidal);
  EXPECT_EQ(marian.source->start_token_id, 9);
  EXPECT_FALSE(marian.embedding_norm);
  EXPECT_THAT(Refusal(With(MinimalBart("bart"), "decoder_attention_heads", 2)),
              HasSubstr("decoder_attention_heads is 2; accepted: encoder_attention_heads, 4"));
}

}  // namespace
}  // namespace sluice
