#include "services/model/model_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/services/model/model_folder.h"
#include "tests/testing/test_data.h"

namespace sluice {
namespace {

using ::nlohmann::json;
using ::sluice::testing::TempFolder;
using ::sluice::testing::TinyLlamaConfig;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

json TinyConfig() { return json::parse(TinyLlamaConfig()); }

json With(const std::string& field, const json& value) {
  json config = TinyConfig();
  config[field] = value;
  return config;
}

json Without(const std::string& field) {
  json config = TinyConfig();
  config.erase(field);
  return config;
}

absl::StatusOr<ModelConfig> Parse(const json& config, const std::string& generation = "") {
  return ParseModelConfig(config.dump(), generation, "/models/tiny");
}

ModelConfig ParsedConfig(const json& config, const std::string& generation = "") {
  const auto parsed = Parse(config, generation);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return parsed.value_or(ModelConfig{});
}

std::string ConfigRefusal(const absl::StatusOr<ModelConfig>& parsed, const std::string& file,
                          absl::StatusCode code) {
  if (parsed.ok()) return "accepted";
  EXPECT_EQ(parsed.status().code(), code) << parsed.status();
  EXPECT_THAT(std::string(parsed.status().message()), HasSubstr(file));
  return std::string(parsed.status().message());
}

std::string ConfigRefusal(const json& config,
                          absl::StatusCode code = absl::StatusCode::kInvalidArgument) {
  return ConfigRefusal(Parse(config), "/models/tiny/config.json: ", code);
}

TEST(ModelConfig, MapsLlama) {
  const ModelConfig config = ParsedConfig(TinyConfig());
  EXPECT_EQ(config.model_type, "llama");
  EXPECT_EQ(config.vocab_size, 10);
  EXPECT_EQ(config.hidden_size, 16);
  EXPECT_EQ(DenseMlpOf(config.layers.at(0)).width, 24);
  EXPECT_EQ(config.num_layers(), 3);
  EXPECT_EQ(config.num_heads, 4);
  EXPECT_EQ(config.num_kv_heads, 2);
  EXPECT_EQ(config.head_dim, 4);
  EXPECT_EQ(config.query_width(0), 16);
  EXPECT_EQ(config.kv_width(0), 8);
  EXPECT_EQ(config.max_positions, 64);
  EXPECT_EQ(config.norm, NormKind::kRmsNorm);
  EXPECT_EQ(config.norm_eps, 1e-5f);
  EXPECT_EQ(DenseMlpOf(config.layers.at(0)).activation, Activation::kSilu);
  EXPECT_TRUE(DenseMlpOf(config.layers.at(0)).gated);
  EXPECT_EQ(config.position, PositionKind::kNone);
  EXPECT_EQ(config.layers.at(2).attention.rope, 0);
  EXPECT_FALSE(config.ropes.at(0).interleaved);
  EXPECT_EQ(config.ropes.at(0).theta, 10000.0);
  EXPECT_TRUE(config.layers.at(0).attention.qkv_bias);
  EXPECT_TRUE(config.layers.at(0).attention.o_bias);
  EXPECT_TRUE(DenseMlpOf(config.layers.at(0)).bias);
  EXPECT_FALSE(config.tied_embeddings);
  EXPECT_EQ(config.bos_token_id, 1);
  EXPECT_THAT(config.eos_token_ids, ElementsAre(2));
}

TEST(ModelConfig, FillsInWhatLlamaFilesLeaveOut) {
  json given = TinyConfig();
  for (const char* field :
       {"num_key_value_heads", "rms_norm_eps", "rope_theta", "hidden_act", "attention_bias",
        "mlp_bias", "tie_word_embeddings", "bos_token_id", "eos_token_id"}) {
    given.erase(field);
  }
  given["head_dim"] = nullptr;  // null is as good as absent
  const ModelConfig config = ParsedConfig(given);
  EXPECT_EQ(config.num_kv_heads, 4);
  EXPECT_EQ(config.head_dim, 4);
  EXPECT_EQ(config.norm_eps, 1e-6f);
  EXPECT_EQ(config.ropes.at(0).theta, 10000.0);
  EXPECT_FALSE(config.layers.at(0).attention.qkv_bias);
  EXPECT_FALSE(config.layers.at(0).attention.o_bias);
  EXPECT_FALSE(DenseMlpOf(config.layers.at(0)).bias);
  EXPECT_FALSE(config.tied_embeddings);
  EXPECT_FALSE(config.bos_token_id.has_value());
  EXPECT_THAT(config.eos_token_ids, IsEmpty());
}

TEST(ModelConfig, TakesHeadDimOfItsOwn) {
  json given = With("head_dim", 10);
  given["hidden_size"] = 17;  // no multiple of the heads, and need not be one
  const ModelConfig config = ParsedConfig(given);
  EXPECT_EQ(config.head_dim, 10);
  EXPECT_EQ(config.query_width(0), 40);
}

TEST(ModelConfig, ReadsRopeThetaInBothPlaces) {
  EXPECT_EQ(ParsedConfig(With("rope_theta", 500000)).ropes.at(0).theta, 500000.0);
  json newer = Without("rope_theta");
  newer["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 1e6}};
  EXPECT_EQ(ParsedConfig(newer).ropes.at(0).theta, 1e6);
  newer["rope_theta"] = 10000;
  EXPECT_EQ(ParsedConfig(newer).ropes.at(0).theta, 1e6);
}

TEST(ModelConfig, AcceptsRopeScalingThatScalesNothing) {
  EXPECT_TRUE(Parse(With("rope_scaling", nullptr)).ok());
  EXPECT_TRUE(Parse(With("rope_scaling", {{"type", "default"}})).ok());
  EXPECT_TRUE(Parse(With("rope_scaling", {{"rope_type", "default"}})).ok());
  EXPECT_TRUE(Parse(With("partial_rotary_factor", 1.0)).ok());
}

json QuantizedWith(const std::string& field, const json& value) {
  json quantization = {{"quant_method", "sluice"},
                       {"version", 2},
                       {"bits", 4},
                       {"group_size", 32},
                       {"checkpoint_id", "0123456789abcdef"}};
  if (!field.empty()) quantization[field] = value;
  return With("quantization_config", quantization);
}

TEST(ModelConfig, KnowsWhatItsQuantizedFilesHold) {
  EXPECT_FALSE(ParsedConfig(With("quantization_config", nullptr)).quantization.has_value());
  const auto quantization = ParsedConfig(QuantizedWith("", nullptr)).quantization;
  ASSERT_TRUE(quantization.has_value());
  EXPECT_EQ(quantization->format, WeightFormat::kInt4);
  EXPECT_EQ(quantization->checkpoint_id, "0123456789abcdef");
  json int8 = QuantizedWith("bits", 8);
  int8["quantization_config"]["version"] = 1;
  EXPECT_EQ(ParsedConfig(int8).quantization->format, WeightFormat::kInt8);
  json fp8 = int8;
  fp8["quantization_config"]["type"] = "float";
  EXPECT_EQ(ParsedConfig(fp8).quantization->format, WeightFormat::kFp8);
  json large_groups = int8;
  large_groups["quantization_config"]["group_size"] = 64;
  EXPECT_EQ(ParsedConfig(large_groups).quantization->format, WeightFormat::kInt8G64);
}

TEST(ModelConfig, RefusesQuantizationOfAnotherKind) {
  EXPECT_THAT(ConfigRefusal(QuantizedWith("group_size", 128)),
              HasSubstr("quantization_config.group_size is 128; accepted: 32"));
  EXPECT_THAT(ConfigRefusal(QuantizedWith("bits", 3)),
              HasSubstr("quantization_config.bits is 3; accepted: 8, 4"));
  EXPECT_THAT(ConfigRefusal(QuantizedWith("bits", 4.5)), HasSubstr("bits is 4.5"));
  EXPECT_THAT(ConfigRefusal(QuantizedWith("type", "float")),
              HasSubstr("quantization_config.type is \"float\"; accepted: \"int\""));
  EXPECT_THAT(ConfigRefusal(QuantizedWith("version", 1)),
              HasSubstr("version is 1; accepted: 2, which `sluice quantize` writes now"));
  EXPECT_THAT(ConfigRefusal(QuantizedWith("bits", 8)), HasSubstr("version is 2; accepted: 1"));
  EXPECT_THAT(ConfigRefusal(QuantizedWith("version", nullptr)), HasSubstr("version is missing"));
  EXPECT_THAT(ConfigRefusal(QuantizedWith("checkpoint_id", "0123")),
              HasSubstr("checkpoint_id is \"0123\"; accepted: 16 hexadecimal digits"));
  EXPECT_THAT(ConfigRefusal(With("quantization_config", 4)), HasSubstr("accepted: a JSON object"));
}

TEST(ModelConfig, NamesWhatThisVersionLacks) {
  const auto unimplemented = absl::StatusCode::kUnimplemented;
  EXPECT_THAT(
      ConfigRefusal(With("rope_scaling", {{"type", "xpos"}, {"factor", 2.0}}), unimplemented),
      AllOf(HasSubstr("rope_scaling.type is \"xpos\"; accepted: \"default\", \"linear\""),
            HasSubstr("\"longrope\"")));
  EXPECT_THAT(ConfigRefusal(With("rope_parameters", {{"full_attention", {{"rope_theta", 1e6}}}}),
                            unimplemented),
              HasSubstr("rope_parameters.full_attention is {\"rope_theta\":1000000.0}"));
  EXPECT_THAT(ConfigRefusal(With("hidden_act", "quick_gelu"), unimplemented),
              AllOf(HasSubstr("hidden_act is \"quick_gelu\""), HasSubstr("\"silu\"")));
  for (const char* method : {"aqlm", "quip", "hqq", "modelopt"}) {
    EXPECT_THAT(
        ConfigRefusal(With("quantization_config", {{"quant_method", method}}), unimplemented),
        AllOf(HasSubstr("quantization_config.quant_method is \"" + std::string(method)),
              HasSubstr("`sluice quantize`")));
  }
  EXPECT_THAT(ConfigRefusal(With("model_type", "mamba"), unimplemented),
              HasSubstr("model_type \"mamba\" is not supported; accepted: \"llama\""));
}

TEST(ModelConfig, GenerationConfigWins) {
  const ModelConfig config = ParsedConfig(TinyConfig(), R"({
      "bos_token_id": 3, "eos_token_id": [4, 5], "do_sample": true, "temperature": 0.6,
      "top_k": 50, "top_p": 0.9, "max_length": 4096, "transformers_version": "4.36"})");
  EXPECT_EQ(config.bos_token_id, 3);
  EXPECT_THAT(config.eos_token_ids, ElementsAre(4, 5));
  EXPECT_EQ(config.generation.do_sample, true);
  EXPECT_EQ(config.generation.temperature, 0.6);
  EXPECT_EQ(config.generation.top_k, 50);
  EXPECT_EQ(config.generation.top_p, 0.9);
  EXPECT_EQ(config.generation.max_length, 4096);
}

TEST(ModelConfig, TakesWhatOtherProgramsWrite) {
  EXPECT_EQ(ParsedConfig(TinyConfig(), R"({"top_k": -1})").generation.top_k, 0) << "no limit";
  EXPECT_EQ(ParsedConfig(With("max_position_embeddings", 256.0)).max_positions, 256);
}

TEST(ModelConfig, ConfigFillsInWhatGenerationConfigLeavesOut) {
  const ModelConfig config =
      ParsedConfig(With("eos_token_id", {7, 2}), R"({"bos_token_id": null})");
  EXPECT_EQ(config.bos_token_id, 1);
  EXPECT_THAT(config.eos_token_ids, ElementsAre(7, 2));
  EXPECT_FALSE(config.generation.do_sample.has_value());
  EXPECT_FALSE(config.generation.temperature.has_value());
}

TEST(ModelConfig, RefusesBadGenerationConfigs) {
  const auto refusal = [](const std::string& generation) {
    return ConfigRefusal(Parse(TinyConfig(), generation), "/models/tiny/generation_config.json: ",
                         absl::StatusCode::kInvalidArgument);
  };
  EXPECT_THAT(refusal("{"), HasSubstr("not JSON"));
  EXPECT_THAT(refusal("[]"), HasSubstr("a JSON object"));
  EXPECT_THAT(refusal(R"({"temperature": -1})"), HasSubstr("temperature is -1"));
  EXPECT_THAT(refusal(R"({"temperature": "hot"})"), HasSubstr("temperature is \"hot\""));
  EXPECT_THAT(refusal(R"({"top_p": 0})"), HasSubstr("top_p is 0; accepted: a number above 0"));
  EXPECT_THAT(refusal(R"({"top_p": 1.01})"), HasSubstr("top_p is 1.01"));
  EXPECT_THAT(refusal(R"({"top_k": -2})"), HasSubstr("top_k is -2"));
  EXPECT_THAT(refusal(R"({"max_length": 0})"), HasSubstr("max_length is 0"));
  EXPECT_THAT(refusal(R"({"do_sample": 1})"), HasSubstr("do_sample is 1; accepted: true or false"));
  EXPECT_THAT(refusal(R"({"eos_token_id": 10})"), HasSubstr("eos_token_id is 10"));
  EXPECT_THAT(refusal(R"({"temperature": 1e999})"), HasSubstr("not JSON at line 1"));
}

TEST(ModelConfig, RefusesWhatIsNotJson) {
  const auto refusal = [](const std::string& text) {
    return ConfigRefusal(ParseModelConfig(text, "", "/models/tiny"),
                         "/models/tiny/config.json: ", absl::StatusCode::kInvalidArgument);
  };
  EXPECT_THAT(refusal(""), HasSubstr("not JSON at line 1, column 1"));
  EXPECT_THAT(refusal(""), HasSubstr("expected '[', '{', or a literal"));
  EXPECT_THAT(refusal("{\n  \"a\": 1,\n  oops\n}"), HasSubstr("not JSON at line 3, column 3"));
  EXPECT_THAT(refusal("[1, 2]"), HasSubstr("holds [1,2]; accepted: a JSON object"));
  EXPECT_THAT(refusal(R"({"a": 1, "a": 2})"), HasSubstr("the key \"a\" is there twice"));
  EXPECT_THAT(refusal(std::string(1 << 20, '[')), HasSubstr("nested deeper than 64"));
  EXPECT_THAT(refusal("{}"), HasSubstr("model_type is missing; accepted: \"llama\""));
  EXPECT_THAT(refusal(R"({"model_type": 3})"), HasSubstr("model_type is 3"));
}

TEST(ModelConfig, RefusesBadSizes) {
  for (const char* field : {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
                            "num_attention_heads", "max_position_embeddings"}) {
    EXPECT_THAT(ConfigRefusal(Without(field)), HasSubstr(absl::StrCat(field, " is missing")))
        << field;
  }
  for (const char* field :
       {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
        "num_attention_heads", "num_key_value_heads", "head_dim", "max_position_embeddings"}) {
    for (const json& value : {json(0), json(-4), json(1.5), json("16"), json(true), json(1e300),
                              json(int64_t{1} << 32), json(~uint64_t{0}), json::array({4})}) {
      EXPECT_THAT(ConfigRefusal(With(field, value)),
                  AllOf(HasSubstr(absl::StrCat(field, " is ", value.dump())),
                        HasSubstr("accepted: an integer from 1 to ")))
          << field << value;
    }
  }
}

TEST(ModelConfig, RefusesSizesThatDontFitTogether) {
  EXPECT_THAT(ConfigRefusal(With("num_key_value_heads", 3)),
              AllOf(HasSubstr("num_key_value_heads is 3"),
                    HasSubstr("a divisor of num_attention_heads, 4")));
  EXPECT_THAT(
      ConfigRefusal(With("hidden_size", 18)),
      AllOf(HasSubstr("hidden_size is 18"), HasSubstr("a multiple of num_attention_heads, 4")));
  EXPECT_THAT(ConfigRefusal(With("hidden_size", 12)),
              HasSubstr("gives head_dim 3; accepted: an even"));
  EXPECT_THAT(ConfigRefusal(With("head_dim", 7)), HasSubstr("head_dim is 7; accepted: an even"));
  EXPECT_THAT(ConfigRefusal(With("bos_token_id", 10)), HasSubstr("bos_token_id is 10; accepted: an "
                                                                 "integer from 0 to 9"));
  EXPECT_THAT(ConfigRefusal(With("eos_token_id", {2, -1})), HasSubstr("eos_token_id is [2,-1]"));
  json wide = With("head_dim", 4096);
  wide["num_attention_heads"] = 4096;
  EXPECT_THAT(ConfigRefusal(wide), HasSubstr("num_attention_heads 4096 times head_dim 4096"));
}

TEST(ModelConfig, RefusesBadNumbers) {
  EXPECT_THAT(ConfigRefusal(With("rms_norm_eps", 0)), HasSubstr("rms_norm_eps is 0"));
  EXPECT_THAT(ConfigRefusal(With("rms_norm_eps", -1e-6)), HasSubstr("rms_norm_eps is -1e-06"));
  EXPECT_THAT(ConfigRefusal(With("rms_norm_eps", 1e-60)), HasSubstr("rms_norm_eps is 1e-60"));
  EXPECT_THAT(ConfigRefusal(With("rms_norm_eps", "tiny")), HasSubstr("rms_norm_eps is \"tiny\""));
  EXPECT_THAT(ConfigRefusal(With("rope_theta", 0)), HasSubstr("rope_theta is 0"));
  EXPECT_THAT(ConfigRefusal(With("rope_parameters", {{"rope_theta", -1}})),
              HasSubstr("rope_parameters.rope_theta is -1"));
  EXPECT_THAT(ConfigRefusal(With("rope_scaling", 4)), HasSubstr("rope_scaling holds 4"));
  EXPECT_THAT(ConfigRefusal(With("tie_word_embeddings", "yes")),
              HasSubstr("tie_word_embeddings is"));
  EXPECT_THAT(ConfigRefusal(With("attention_bias", 1)), HasSubstr("attention_bias is 1"));
}

TEST(ModelConfig, MessagesStayShort) {
  const std::string message = ConfigRefusal(With("hidden_size", std::string(100000, 'x')));
  EXPECT_THAT(message, HasSubstr("hidden_size is \"xxx"));
  EXPECT_LT(message.size(), 300u);
}

TEST(ModelConfig, SaysWhatAFolderLacks) {
  const TempFolder folder;
  const auto no_folder = LoadModelConfig(folder.PathOf("nowhere"));
  EXPECT_EQ(no_folder.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(no_folder.status().message()), HasSubstr("nowhere: no such folder"));
  const auto no_config = LoadModelConfig(folder.path());
  EXPECT_EQ(no_config.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(no_config.status().message()), HasSubstr("config.json: no such file"));
  folder.Write("config.json", TinyLlamaConfig());
  EXPECT_TRUE(LoadModelConfig(folder.path()).ok());
  folder.Write("generation_config.json", "nonsense");
  EXPECT_FALSE(LoadModelConfig(folder.path()).ok());
}

// Numbers that no model can have are refused before any weight is looked for: the folder has none.
TEST(ModelConfig, AFolderWhoseNumbersDontFitDoesNotLoad) {
  const TempFolder folder;
  const auto refusal = [&](const json& config, const ModelOverrides& overrides = {}) {
    folder.Write("config.json", config.dump());
    const auto loaded = LoadModelConfig(folder.path(), overrides);
    return loaded.ok() ? "accepted" : std::string(loaded.status().message());
  };
  const std::string file = folder.PathOf("config.json") + ": ";
  EXPECT_THAT(refusal(With("head_dim", 7)), StartsWith(file + "head_dim is 7; accepted: an even"));
  json windowed = With("sliding_window", 0);
  windowed["model_type"] = "mistral";
  EXPECT_THAT(refusal(windowed), StartsWith(file + "sliding_window is 0; accepted: an integer"));
  EXPECT_THAT(refusal(With("rope_scaling", {{"type", "yarn"}, {"factor", 0.5}})),
              StartsWith(file + "rope_scaling.factor is 0.5; accepted: a number of at least 1"));
  EXPECT_THAT(refusal(With("rope_scaling", {{"type", "xpos"}, {"factor", 2}})),
              StartsWith(file + "rope_scaling.type is \"xpos\"; accepted: \"default\""));
  EXPECT_THAT(refusal(TinyConfig(), {.rope_scaling = "linear,factor=0.5"}),
              HasSubstr("--rope_scaling: factor is 0.5; accepted: a number of at least 1"));
}

TEST(ModelConfig, SaysWhyAFolderCannotBeLookedInto) {
  const TempFolder folder;
  const auto too_long = LoadModelConfig(folder.PathOf(std::string(300, 'x')));
  EXPECT_THAT(std::string(too_long.status().message()), HasSubstr("File name too long"));
  std::filesystem::create_symlink("loop", folder.PathOf("loop"));
  const auto looping = LoadModelConfig(folder.PathOf("loop"));
  EXPECT_THAT(std::string(looping.status().message()),
              AllOf(HasSubstr(folder.PathOf("loop/config.json")), HasSubstr("Too many levels")));
}

// Whatever a file holds, the answer is a status or a configuration that keeps its promises.
TEST(ModelConfig, NoMutationCrashesTheReader) {
  constexpr uint32_t kSeed = 71;
  std::mt19937 random(kSeed);
  const std::string valid = TinyLlamaConfig();
  int accepted = 0;
  for (int round = 0; round < 5000; ++round) {
    SCOPED_TRACE(absl::StrCat("seed ", kSeed, " round ", round));
    std::string text = valid;
    for (uint32_t edits = 1 + random() % 3; edits > 0; --edits) {
      const size_t at = random() % text.size();
      text[at] =
          random() % 2 == 0 ? "0123456789-.e\"{}[],: "[random() % 21] : static_cast<char>(random());
    }
    const auto config = ParseModelConfig(text, "", "x");
    if (!config.ok()) continue;
    ++accepted;
    EXPECT_GE(config->num_layers(), 1);
    EXPECT_GE(config->hidden_size, 1);
    EXPECT_EQ(config->num_heads % config->num_kv_heads, 0);
    EXPECT_EQ(config->ropes.at(0).dim % 2, 0);
    EXPECT_GT(config->norm_eps, 0);
    EXPECT_GT(config->ropes.at(0).theta, 0);
    for (const int id : config->eos_token_ids) EXPECT_LT(id, config->vocab_size);
  }
  EXPECT_GT(accepted, 100);
  EXPECT_LT(accepted, 4900);
}

TEST(ModelConfig, LoadsRealLlamaFolders) {
  SLUICE_SKIP_WITHOUT("models/stories260K");
  const auto stories = LoadModelConfig(*testing::TestData("models/stories260K"));
  ASSERT_TRUE(stories.ok()) << stories.status();
  EXPECT_EQ(stories->num_kv_heads, 4);
  EXPECT_EQ(stories->head_dim, 8);
  EXPECT_TRUE(stories->tied_embeddings);
  EXPECT_THAT(stories->eos_token_ids, ElementsAre(2));

  SLUICE_SKIP_WITHOUT("models/third_party/llama");
  const auto llama = LoadModelConfig(*testing::TestData("models/third_party/llama"));
  ASSERT_TRUE(llama.ok()) << llama.status();
  EXPECT_EQ(llama->head_dim, 4);
  EXPECT_EQ(llama->num_kv_heads, 1);
  EXPECT_FALSE(llama->tied_embeddings);
}

}  // namespace
}  // namespace sluice
