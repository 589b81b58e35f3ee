// Models whose layers differ from one another.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <vector>

#include "tests/services/model/model_folder.h"
#include "tests/services/shard/local_pipeline.h"

namespace sluice::testing {
namespace {

using Logits = std::vector<float>;

class MixedLayersTest : public ::testing::Test {
 protected:
  MixedLayersTest() : config_(ParseModelConfig(TinyLlamaConfig(), "", "tiny").value()) {
    std::iota(ids_.begin(), ids_.end(), 0);
    for (int32_t& id : ids_) id = id * 7 % config_.vocab_size;
  }

  // Of the model that config_ says, with weights that its names determine.
  Logits Compute(const PipelineOptions& options = {}, int chunk = 64) const {
    const TempFolder folder;
    folder.Write("model.safetensors", SafetensorsBytes(TensorsOf(config_, DType::kF32)));
    auto pipeline = LocalPipeline::LoadAs(config_, folder.path(), options);
    if (!pipeline.ok()) throw std::runtime_error(std::string(pipeline.status().message()));
    return (*pipeline)->Logits(ids_, {chunk}).value();
  }

  // However the model is shared out.
  void ExpectSameBitsEverywhere() const {
    const Logits alone = Compute();
    for (const float logit : alone) ASSERT_TRUE(std::isfinite(logit));
    EXPECT_TRUE(SameBits(alone, Compute({.num_ranks = 2})));
    EXPECT_TRUE(SameBits(alone, Compute({.num_ranks = 4, .num_stages = 3}, 5)));
    EXPECT_TRUE(SameBits(alone, Compute({.num_stages = 2, .num_threads = 2}, 1)));
  }

  static bool SameBits(const Logits& a, const Logits& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
  }

  ModelConfig config_;
  std::vector<int32_t> ids_ = std::vector<int32_t>(30);
};

TEST_F(MixedLayersTest, MlpsMayHaveDifferentWidths) {
  DenseMlpOf(config_.layers[0]).width = 8;
  DenseMlpOf(config_.layers[2]).width = 80;
  ExpectSameBitsEverywhere();
}

TEST_F(MixedLayersTest, MlpsMayDifferInKind) {
  DenseMlpOf(config_.layers[1]) = {.width = 40, .activation = Activation::kRelu, .gated = false};
  config_.layers[2].parallel_residual = true;
  ExpectSameBitsEverywhere();
}

TEST_F(MixedLayersTest, ALayerMayRotateByItsOwnTable) {
  const Logits one = Compute();
  config_.ropes.push_back(config_.ropes[0]);
  config_.layers[1].attention.rope = 1;
  EXPECT_TRUE(SameBits(Compute(), one));
  config_.ropes[1].theta = 100;
  EXPECT_FALSE(SameBits(Compute(), one));
  ExpectSameBitsEverywhere();
}

// One whose angles go by the sequence's length, which beyond the original one are a step's own.
TEST_F(MixedLayersTest, ATableMayDependOnTheLength) {
  config_.ropes.push_back(config_.ropes[0]);
  config_.layers[1].attention.rope = 1;
  config_.ropes[1].scaling = RopeScaling::kDynamicNtk;
  config_.ropes[1].factor = 2;
  config_.ropes[1].original_positions = 30;
  const Logits within = Compute();
  EXPECT_TRUE(config_.depends_on_length());
  EXPECT_EQ(config_.RopeLengthClass(30), 30);
  EXPECT_EQ(config_.RopeLengthClass(31), 31);
  config_.ropes[1].original_positions = 20;
  EXPECT_FALSE(SameBits(Compute(), within));
  ExpectSameBitsEverywhere();
}

TEST_F(MixedLayersTest, ALayerMayHaveNoPositions) {
  const Logits rotated = Compute();
  config_.layers[1].attention.rope = std::nullopt;
  EXPECT_FALSE(SameBits(Compute(), rotated));
  ExpectSameBitsEverywhere();
}

TEST_F(MixedLayersTest, AttentionMayDiffer) {
  const Logits alike = Compute();
  config_.layers[1].attention.window = 5;
  config_.layers[2].attention.scale = 0.125F;
  EXPECT_FALSE(SameBits(Compute(), alike));
  config_.layers[0].attention.qk_norm = true;
  config_.layers[1].attention.qkv_bias = false;
  config_.layers[2].attention.o_bias = false;
  ExpectSameBitsEverywhere();
}

}  // namespace
}  // namespace sluice::testing
