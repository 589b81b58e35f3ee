#include "services/model/model_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <string>

#include "tests/services/model/model_folder.h"

namespace sluice::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

ModelConfig Config(int num_layers) {
  ModelConfig config = *ParseModelConfig(TinyLlamaConfig(), "", "test");
  config.layers.resize(num_layers);
  return config;
}

TEST(CheckModelFiles, SeesLayersThatNobodyUses) {
  const TempFolder folder;
  folder.Write("model.safetensors", SafetensorsBytes(TinyLlamaTensors(DType::kBF16)));
  EXPECT_THAT(*CheckModelFiles(folder.path(), Config(3)), IsEmpty());
  EXPECT_THAT(*CheckModelFiles(folder.path(), Config(2)),
              ElementsAre("config.json has 2 layers, the weights have 3: the last ones are not "
                          "used"));
}

TEST(CheckModelFiles, LeavesLayersOfOtherModelsAlone) {
  const TempFolder folder;
  auto tensors = TinyLlamaTensors(DType::kF32);
  const size_t layers_of_text = tensors.size();
  for (size_t i = 0; i < layers_of_text; ++i) {
    auto image = tensors[i];
    image.name = "vision_tower.layers.7.norm.weight." + std::to_string(i) + ".weight";
    tensors[i].name = "language_model." + tensors[i].name;
    tensors.push_back(image);
  }
  folder.Write("model.safetensors", SafetensorsBytes(tensors));
  EXPECT_THAT(*CheckModelFiles(folder.path(), Config(3)), IsEmpty());
}

TEST(CheckModelFiles, RefusesWeightsThatAreNotFinite) {
  const TempFolder folder;
  auto tensors = TinyLlamaTensors(DType::kF32);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (auto& tensor : tensors) {
    if (tensor.name != "model.norm.weight") continue;
    std::memcpy(tensor.bytes.data(), &nan, sizeof(nan));
  }
  folder.Write("model.safetensors", SafetensorsBytes(tensors));
  const absl::Status status = CheckModelFiles(folder.path(), Config(3)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("\"model.norm.weight\" holds numbers that"));
}

TEST(LayerOf, ReadsTheNamesOfAllFamilies) {
  EXPECT_EQ(LayerOf("model.layers.7.mlp.up_proj.weight"), 7);
  EXPECT_EQ(LayerOf("h.11.attn.c_attn.weight"), 11);
  EXPECT_EQ(LayerOf("gpt_neox.layers.0.attention.dense.weight"), 0);
  EXPECT_EQ(LayerOf("lm_head.weight"), -1);
}

}  // namespace
}  // namespace sluice::testing
