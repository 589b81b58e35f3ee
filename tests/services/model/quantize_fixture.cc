#include "tests/services/model/quantize_fixture.h"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

namespace sluice::testing {

nlohmann::json LlamaConfig() {
  return {{"model_type", "llama"},    {"vocab_size", 40},
          {"hidden_size", 64},        {"intermediate_size", 256},
          {"num_hidden_layers", 2},   {"num_attention_heads", 2},
          {"num_key_value_heads", 1}, {"max_position_embeddings", 64},
          {"attention_bias", true},   {"tie_word_embeddings", false}};
}

std::string TextOf(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

QuantizeTest::QuantizeTest() { std::filesystem::create_directory(in()); }

void QuantizeTest::WriteModel(const nlohmann::json& config, DType dtype) {
  folder_.Write("in/config.json", config.dump());
  folder_.Write("in/model.safetensors", SafetensorsBytes(TensorsOf(ConfigOf(in()), dtype)));
}

absl::StatusOr<QuantizeResult> QuantizeTest::Quantize(WeightFormat format) {
  return QuantizeModel({.model = in(), .out = out(), .format = format}, nullptr);
}

ModelConfig QuantizeTest::ConfigOf(const std::string& folder) {
  const auto config = LoadModelConfig(folder);
  EXPECT_TRUE(config.ok()) << config.status();
  return *config;
}

WeightSource QuantizeTest::SourceOf(const std::string& folder) {
  auto source = WeightSource::Open(folder, ConfigOf(folder));
  EXPECT_TRUE(source.ok()) << source.status();
  return *std::move(source);
}

}  // namespace sluice::testing
