#include "services/model/model_families.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
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
  return With(Minimal(model_type), "first_k_dense_replace", 3);
}

TEST(ModelFamilies, LatentAttentionHasTheSizesOfTheFirstModels) {
  const ModelConfig config = Parsed(Latent("deepseek_v3"));
  ASSERT_NE(config.latent(), nullptr);
  const LatentSpec& latent = *config.latent();
  EXPECT_EQ(latent.query_rank, 1536);
  EXPECT_EQ(latent.rank, 512);
  EXPECT_EQ(latent.query_dim(), 192);
  EXPECT_EQ(latent.stored_dim(), 576);
  EXPECT_EQ(config.value_width(), 4 * 128);
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

TEST(ModelFamilies, MixturesOfLatentFamiliesAreRefusedByLayer) {
  EXPECT_THAT(Refusal(With(Latent("deepseek_v3"), "first_k_dense_replace", 1)),
              HasSubstr("layer 1 is a mixture of experts"));
  json every_second =
      With(With(Latent("deepseek_v2"), "first_k_dense_replace", 1), "moe_layer_freq", 2);
  EXPECT_THAT(Refusal(every_second), HasSubstr("layer 2 is a mixture of experts"));
}

}  // namespace
}  // namespace sluice
