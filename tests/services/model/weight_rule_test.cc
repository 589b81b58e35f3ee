#include "services/model/weight_rule.h"

#include <gtest/gtest.h>

#include <vector>

#include "services/model/shard_plan.h"

namespace sluice {
namespace {

using enum WeightFormat;

const std::vector<WeightFormat> kFormats = {kF32, kBF16, kInt8, kInt4, kFp8};

// 4 heads of 64, so that o_proj is added up in 4 runs of 64, and down_proj in 8 of 96.
ModelConfig Config() {
  ModelConfig config;
  config.vocab_size = 100;
  config.hidden_size = 256;
  config.layers.assign(2, {.mlp = DenseMlpSpec{.width = 768}});
  config.num_heads = 4;
  config.num_kv_heads = 2;
  config.head_dim = 64;
  config.max_positions = 100;
  return config;
}

TensorId InLayer(TensorRole role) { return {role, 1}; }

std::vector<TensorId> Matrices() {
  using enum TensorRole;
  return {InLayer(kQ),    InLayer(kK),  InLayer(kV),   InLayer(kO),
          InLayer(kGate), InLayer(kUp), InLayer(kDown)};
}

TEST(WeightRule, ProjectionsAreKeptAsAskedFor) {
  for (const WeightFormat wanted : kFormats) {
    for (const TensorId tensor : Matrices()) {
      EXPECT_EQ(FormatOf(tensor, Config(), wanted), wanted);
    }
  }
}

TEST(WeightRule, VectorsAreAlwaysFloats) {
  for (const WeightFormat wanted : kFormats) {
    for (const TensorRole role :
         {TensorRole::kAttentionNorm, TensorRole::kQBias, TensorRole::kDownBias,
          TensorRole::kMlpNormBias, TensorRole::kQNorm}) {
      EXPECT_EQ(FormatOf(InLayer(role), Config(), wanted), kF32);
    }
    EXPECT_EQ(FormatOf({TensorRole::kFinalNorm}, Config(), wanted), kF32);
    EXPECT_EQ(FormatOf({TensorRole::kFinalNormBias}, Config(), wanted), kF32);
  }
}

TEST(WeightRule, TheEndsOfTheModelAreKeptMoreExactly) {
  for (const TensorRole role : {TensorRole::kEmbedding, TensorRole::kPositions}) {
    EXPECT_EQ(FormatOf({role}, Config(), kF32), kF32);
    EXPECT_EQ(FormatOf({role}, Config(), kBF16), kBF16);
    EXPECT_EQ(FormatOf({role}, Config(), kInt8), kBF16);
    EXPECT_EQ(FormatOf({role}, Config(), kInt4), kBF16);
    EXPECT_EQ(FormatOf({role}, Config(), kFp8), kBF16);
  }
  EXPECT_EQ(FormatOf({TensorRole::kHead}, Config(), kF32), kF32);
  EXPECT_EQ(FormatOf({TensorRole::kHead}, Config(), kBF16), kBF16);
  EXPECT_EQ(FormatOf({TensorRole::kHead}, Config(), kInt8), kInt8);
  EXPECT_EQ(FormatOf({TensorRole::kHead}, Config(), kInt4), kInt6);
  EXPECT_EQ(FormatOf({TensorRole::kHead}, Config(), kFp8), kFp8);
}

TEST(WeightRule, MatricesWithoutWholeGroupsStayBf16) {
  ModelConfig config = Config();
  DenseMlpOf(config.layers[1]).width = 640;  // runs of 80
  EXPECT_EQ(FormatOf(InLayer(TensorRole::kDown), config, kInt8), kBF16);
  EXPECT_EQ(FormatOf(InLayer(TensorRole::kDown), config, kInt4), kBF16);
  EXPECT_EQ(FormatOf(InLayer(TensorRole::kDown), config, kF32), kF32);
  EXPECT_EQ(FormatOf(InLayer(TensorRole::kUp), config, kInt8), kInt8);  // it has whole inputs
  EXPECT_EQ(FormatOf({TensorRole::kDown, 0}, config, kInt8), kInt8);  // of a layer with runs of 96

  config = Config();
  config.head_dim = 16;  // runs of a head
  EXPECT_EQ(FormatOf(InLayer(TensorRole::kO), config, kInt8), kBF16);
  EXPECT_EQ(FormatOf(InLayer(TensorRole::kQ), config, kInt8), kInt8);

  config = Config();
  config.hidden_size = 272;
  for (const TensorId tensor : Matrices()) {
    const bool reads_hidden = ShapeOf(tensor, config).columns == 272;
    EXPECT_EQ(FormatOf(tensor, config, kInt4), reads_hidden ? kBF16 : kInt4);
  }
  EXPECT_EQ(FormatOf({TensorRole::kHead}, config, kInt4), kBF16);
}

// What a rank holds of a quantised matrix begins and ends with a group.
TEST(WeightRule, RanksShareNoGroup) {
  for (const int head_dim : {8, 16, 32, 40, 64}) {
    for (const int intermediate : {172, 256, 640, 768, 1024}) {
      ModelConfig config = Config();
      config.head_dim = head_dim;
      for (LayerSpec& layer : config.layers) DenseMlpOf(layer).width = intermediate;
      for (const int ranks : AcceptedRankCounts(config)) {
        for (int rank = 0; rank < ranks; ++rank) {
          const auto plan = MakeShardPlan(config, {.num_ranks = ranks, .rank = rank});
          ASSERT_TRUE(plan.ok()) << plan.status();
          for (const TensorId tensor : Matrices()) {
            if (!IsQuantized(FormatOf(tensor, config, kInt4))) continue;
            const IndexRange columns = SliceOf(tensor, config, *plan).columns;
            EXPECT_EQ(columns.begin % kWeightGroup, 0);
            EXPECT_EQ(columns.end % kWeightGroup, 0);
          }
        }
      }
    }
  }
}

// One half of it is multiplied transposed.
TEST(WeightRule, TheMapFromLatentsIsNotQuantized) {
  ModelConfig config = Config();
  for (LayerSpec& layer : config.layers) {
    layer.attention.latent =
        LatentSpec{.query_rank = 64, .rank = 32, .nope_dim = 32, .rope_dim = 32, .value_dim = 32};
  }
  for (const WeightFormat wanted : kFormats) {
    EXPECT_EQ(FormatOf(InLayer(TensorRole::kKvB), config, wanted),
              IsQuantized(wanted) ? kBF16 : wanted);
    for (const TensorRole role : {TensorRole::kQA, TensorRole::kQB, TensorRole::kKvA}) {
      EXPECT_EQ(FormatOf(InLayer(role), config, wanted), wanted);
    }
    EXPECT_EQ(FormatOf(InLayer(TensorRole::kKvANorm), config, wanted), kF32);
  }
}

}  // namespace
}  // namespace sluice
