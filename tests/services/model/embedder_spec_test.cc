#include "services/model/embedder_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "services/model/model_config.h"
#include "tests/services/model/model_folder.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kBert[] =
    R"({"model_type": "bert", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
        "num_attention_heads": 4, "vocab_size": 320, "max_position_embeddings": 128)";

class EmbedderSpecTest : public ::testing::Test {
 protected:
  // Writes a file, and the folder that it lies in.
  void Write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(folder_.PathOf(name)).parent_path());
    folder_.Write(name, text);
  }
  void WriteModules(const std::string& kinds_after_pooling) {
    Write("modules.json", R"([{"type": "sentence_transformers.models.Transformer", "path": ""},
                              {"type": "sentence_transformers.models.Pooling",
                               "path": "1_Pooling"})" +
                              kinds_after_pooling + "]");
  }
  absl::StatusOr<ModelConfig> Load() { return LoadModelConfig(folder_.path()); }
  std::string Refusal() {
    const absl::StatusOr<ModelConfig> config = Load();
    return config.ok() ? "" : std::string(config.status().message());
  }

  testing::TempFolder folder_;
};

TEST_F(EmbedderSpecTest, AnEncoderWithoutModulesTakesTheMean) {
  Write("config.json", std::string(kBert) + "}");
  const auto config = Load();
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_TRUE(config->is_encoder());
  EXPECT_FALSE(config->has_head);
  EXPECT_FALSE(config->final_norm);
  ASSERT_TRUE(config->embedder.has_value());
  EXPECT_THAT(config->embedder->poolings, ElementsAre(Pooling::kMean));
  EXPECT_EQ(config->embedder->dimensions, 64);
  EXPECT_TRUE(config->embedder->needs_all_rows());
}

TEST_F(EmbedderSpecTest, ReadsModulesAndPrompts) {
  Write("config.json", std::string(kBert) + "}");
  WriteModules(R"(, {"type": "sentence_transformers.models.Dense", "path": "2_Dense"},
                    {"type": "sentence_transformers.models.Normalize", "path": "3_Normalize"})");
  Write("1_Pooling/config.json",
        R"({"word_embedding_dimension": 64, "pooling_mode_cls_token": true,
            "pooling_mode_mean_tokens": true, "pooling_mode_max_tokens": false})");
  Write("2_Dense/config.json",
        R"({"in_features": 128, "out_features": 32, "bias": false,
            "activation_function": "torch.nn.modules.linear.Identity"})");
  Write("config_sentence_transformers.json",
        R"({"prompts": {"query": "query: ", "document": ""}, "default_prompt_name": "query"})");
  const auto config = Load();
  ASSERT_TRUE(config.ok()) << config.status();
  const EmbedderSpec& spec = *config->embedder;
  EXPECT_THAT(spec.poolings, ElementsAre(Pooling::kCls, Pooling::kMean));
  ASSERT_EQ(spec.steps.size(), 2u);
  EXPECT_EQ(spec.steps[0].kind, EmbedderStep::Kind::kDense);
  EXPECT_EQ(spec.steps[0].shape, (MatrixShape{32, 128}));
  EXPECT_EQ(spec.steps[0].activation, StepActivation::kNone);
  EXPECT_EQ(spec.steps[1].kind, EmbedderStep::Kind::kNormalise);
  EXPECT_EQ(spec.dimensions, 32);
  EXPECT_EQ(spec.default_prompt, "query");
  EXPECT_EQ(spec.FindPrompt("query")->text, "query: ");
  EXPECT_EQ(spec.FindPrompt("other"), nullptr);
}

TEST_F(EmbedderSpecTest, ReadsTheHeadsOfClassifiers) {
  Write("config.json", std::string(kBert) +
                           R"(, "architectures": ["BertForSequenceClassification"],
                               "id2label": {"0": "no", "1": "yes"}})");
  const auto config = Load();
  ASSERT_TRUE(config.ok()) << config.status();
  const EmbedderSpec& spec = *config->embedder;
  EXPECT_TRUE(spec.is_classifier());
  EXPECT_THAT(spec.labels, ElementsAre("no", "yes"));
  EXPECT_THAT(spec.poolings, ElementsAre(Pooling::kCls));
  ASSERT_EQ(spec.steps.size(), 2u);
  EXPECT_EQ(spec.steps[0].name, "bert.pooler.dense");
  EXPECT_EQ(spec.steps[1].name, "classifier");
  EXPECT_EQ(spec.steps[1].shape, (MatrixShape{2, 64}));
}

TEST_F(EmbedderSpecTest, NamesWhatItDoesNotKnow) {
  Write("config.json", std::string(kBert) + "}");
  WriteModules(R"(, {"type": "sentence_transformers.models.WeightedLayerPooling", "path": "2"})");
  Write("1_Pooling/config.json", R"({"pooling_mode_mean_tokens": true})");
  EXPECT_THAT(Refusal(), HasSubstr("accepted: Transformer, Pooling, Dense, Normalize"));
  WriteModules("");
  Write("1_Pooling/config.json", R"({"pooling_mode_attention": true})");
  EXPECT_THAT(Refusal(), HasSubstr("pooling_mode_attention is true"));
  Write("1_Pooling/config.json", R"({"pooling_mode_mean_tokens": false})");
  EXPECT_THAT(Refusal(), HasSubstr("no pooling is true"));
  Write("1_Pooling/config.json", R"({"pooling_mode_mean_tokens": true})");
  WriteModules(R"(, {"type": "sentence_transformers.models.Dense", "path": "2_Dense"})");
  Write("2_Dense/config.json", R"({"in_features": 32, "out_features": 32})");
  EXPECT_THAT(Refusal(), HasSubstr("in_features is 32; accepted: 64"));
  Write("config.json", std::string(kBert) + R"(, "position_embedding_type": "relative_key"})");
  EXPECT_THAT(Refusal(), HasSubstr("position_embedding_type"));
}

TEST_F(EmbedderSpecTest, ADecoderWithoutModulesMakesNoEmbeddings) {
  Write("config.json", R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 96,
                           "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 320,
                           "max_position_embeddings": 128})");
  const auto config = Load();
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_FALSE(config->embedder.has_value());
  EXPECT_TRUE(config->has_head);
  EXPECT_FALSE(config->is_encoder());
}

}  // namespace
}  // namespace sluice
