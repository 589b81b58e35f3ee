#include "services/model/shard_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "services/model/tensor_roles.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

ModelConfig Config(int heads, int kv_heads, int intermediate, int layers = 4) {
  ModelConfig config;
  config.model_type = "llama";
  config.vocab_size = 100;
  config.hidden_size = 64;
  config.head_dim = 8;
  config.num_heads = heads;
  config.num_kv_heads = kv_heads;
  config.layers.assign(layers, {.mlp = DenseMlpSpec{.width = intermediate}});
  return config;
}

ShardPlan Plan(const ModelConfig& config, const ShardPlacement& placement) {
  const auto plan = MakeShardPlan(config, placement);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.value_or(ShardPlan{});
}

std::string Refusal(const ModelConfig& config, const ShardPlacement& placement) {
  const auto plan = MakeShardPlan(config, placement);
  if (plan.ok()) return "accepted";
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(plan.status().message());
}

TEST(ShardPlan, OneShardHoldsTheWholeModel) {
  const ShardPlan plan = Plan(Config(8, 4, 172), {});
  EXPECT_EQ(plan.layers, (IndexRange{0, 4}));
  EXPECT_EQ(plan.heads, (IndexRange{0, 8}));
  EXPECT_EQ(plan.kv_heads, (IndexRange{0, 4}));
  EXPECT_EQ(plan.MlpOf(172).columns, (IndexRange{0, 172}));
  EXPECT_EQ(plan.o_proj.num_slices, 8);
  EXPECT_EQ(plan.o_proj.width, 8);
  EXPECT_EQ(plan.o_proj.slices, (IndexRange{0, 8}));
  EXPECT_EQ(plan.MlpOf(172).down_proj.num_slices, 4);
  EXPECT_EQ(plan.MlpOf(172).down_proj.width, 43);
}

MixtureSpec Mixture(int width, int shared_width = 0) {
  return {.router = {.num_experts = 4, .num_chosen = 2},
          .expert = {.width = width},
          .shared_width = shared_width};
}

// Slices of experts are whole groups of quantised weights where that leaves more than one.
TEST(ShardPlan, CutsExpertsIntoWholeGroupsOfWeights) {
  EXPECT_EQ(NumSlicesOf(Mixture(768)), 8);
  EXPECT_EQ(NumSlicesOf(Mixture(1408, 5632)), 4);
  EXPECT_EQ(NumSlicesOf(Mixture(2880)), 2);
  EXPECT_EQ(NumSlicesOf(Mixture(96)), 8);      // three groups
  EXPECT_EQ(NumSlicesOf(Mixture(48, 80)), 8);  // no groups
}

TEST(ShardPlan, CutsTheSharedExpertIntoAsManySlicesAsTheOthers) {
  ModelConfig config = Config(8, 8, 64);
  const MixtureSpec mixture = Mixture(256, 1024);
  config.layers[2].mlp = mixture;
  const ShardPlan plan = Plan(config, {.num_ranks = 4, .rank = 1});
  EXPECT_EQ(plan.MlpOf(mixture, 256).columns, (IndexRange{64, 128}));
  EXPECT_EQ(plan.MlpOf(mixture, 1024).columns, (IndexRange{256, 512}));
  EXPECT_EQ(plan.MlpOf(mixture, 256).down_proj.slices, (IndexRange{2, 4}));
  EXPECT_EQ(plan.MlpOf(mixture, 1024).down_proj.slices, (IndexRange{2, 4}));
}

TEST(ShardPlan, RefusesMoreRanksThanExpertsHaveSlices) {
  ModelConfig config = Config(8, 8, 64);
  config.layers[1].mlp = Mixture(2880);
  EXPECT_THAT(Refusal(config, {.num_ranks = 4}),
              AllOf(HasSubstr("the columns of experts, 2880"), HasSubstr("model: 1, 2")));
}

TEST(ShardPlan, RanksShareKvHeadsWhereThereAreFewerOfThem) {
  const ModelConfig config = Config(8, 2, 64);
  for (int rank = 0; rank < 8; ++rank) {
    const ShardPlan plan = Plan(config, {.num_ranks = 8, .rank = rank});
    EXPECT_EQ(plan.kv_heads, (IndexRange{rank / 4, rank / 4 + 1})) << rank;
  }
}

TEST(ShardPlan, EarlierStagesHoldTheExtraLayers) {
  const ModelConfig config = Config(4, 4, 64, 10);
  const auto layers = [&](int stage) {
    return Plan(config, {.num_stages = 4, .stage = stage}).layers;
  };
  EXPECT_EQ(layers(0), (IndexRange{0, 3}));
  EXPECT_EQ(layers(1), (IndexRange{3, 6}));
  EXPECT_EQ(layers(2), (IndexRange{6, 8}));
  EXPECT_EQ(layers(3), (IndexRange{8, 10}));
}

TEST(ShardPlan, NamesTheRankCountsAModelAccepts) {
  EXPECT_THAT(AcceptedRankCounts(Config(8, 4, 172)), ElementsAre(1, 2, 4));
  EXPECT_THAT(AcceptedRankCounts(Config(2, 1, 12)), ElementsAre(1, 2));
  EXPECT_THAT(AcceptedRankCounts(Config(32, 8, 14336)), ElementsAre(1, 2, 4, 8));
  EXPECT_THAT(AcceptedRankCounts(Config(3, 3, 64)), ElementsAre(1));
  EXPECT_THAT(AcceptedRankCounts(Config(8, 8, 7)), ElementsAre(1));

  EXPECT_THAT(Refusal(Config(8, 4, 172), {.num_ranks = 8}),
              AllOf(HasSubstr("8 ranks"), HasSubstr("intermediate_size, 172"),
                    HasSubstr("accepted for this model: 1, 2, 4")));
  EXPECT_THAT(Refusal(Config(6, 6, 64), {.num_ranks = 4}),
              AllOf(HasSubstr("num_attention_heads, 6"), HasSubstr("1, 2")));
  EXPECT_THAT(Refusal(Config(24, 6, 64), {.num_ranks = 4}),
              AllOf(HasSubstr("num_key_value_heads, 6"), HasSubstr("1, 2")));
  for (const int ranks : {0, -1, 3, 5, 6, 7, 16}) {
    EXPECT_THAT(Refusal(Config(240, 240, 240), {.num_ranks = ranks}),
                AllOf(HasSubstr(absl::StrCat("over ", ranks, " ranks")),
                      HasSubstr("no power of two from 1 to 8"), HasSubstr("1, 2, 4, 8")));
  }
}

// A model whose layers have MLPs of different widths.
TEST(ShardPlan, EveryMlpIsCutByItself) {
  ModelConfig config = Config(8, 8, 64);
  DenseMlpOf(config.layers[1]).width = 20;
  EXPECT_THAT(AcceptedRankCounts(config), ElementsAre(1, 2, 4));
  const ShardPlan plan = Plan(config, {.num_ranks = 4, .rank = 3});
  EXPECT_EQ(plan.MlpOf(64).columns, (IndexRange{48, 64}));
  EXPECT_EQ(plan.MlpOf(64).down_proj.num_slices, 8);
  EXPECT_EQ(plan.MlpOf(20).columns, (IndexRange{15, 20}));
  EXPECT_EQ(plan.MlpOf(20).down_proj.slices, (IndexRange{3, 4}));
}

TEST(ShardPlan, RefusesPlacesThatDontExist) {
  const ModelConfig config = Config(8, 8, 64, 3);
  EXPECT_THAT(Refusal(config, {.num_stages = 4}),
              AllOf(HasSubstr("4 stages"), HasSubstr("1 to 3")));
  EXPECT_THAT(Refusal(config, {.num_stages = 0}), HasSubstr("0 stages"));
  EXPECT_THAT(Refusal(config, {.num_stages = 2, .stage = 2}),
              AllOf(HasSubstr("stage 2 of 2"), HasSubstr("0 to 1")));
  EXPECT_THAT(Refusal(config, {.stage = -1}), HasSubstr("stage -1"));
  EXPECT_THAT(Refusal(config, {.num_ranks = 2, .rank = 2}),
              AllOf(HasSubstr("rank 2 of 2"), HasSubstr("0 to 1")));
}

// Over all small models: the ranks of a stage tile every dimension, each has the KV heads that its
// query heads read, and the reduction's shape is the same for every number of ranks.
TEST(ShardPlan, RanksTileEveryModelTheyAccept) {
  int plans = 0;
  for (const int heads : {1, 2, 3, 4, 6, 8, 12, 16, 24, 32}) {
    for (int kv_heads = 1; kv_heads <= heads; ++kv_heads) {
      if (heads % kv_heads != 0) continue;
      for (const int intermediate : {1, 12, 44, 64, 172, 1368}) {
        const ModelConfig config = Config(heads, kv_heads, intermediate);
        const ShardPlan whole = Plan(config, {});
        for (const int ranks : AcceptedRankCounts(config)) {
          SCOPED_TRACE(absl::StrCat(heads, " ", kv_heads, " ", intermediate, " ", ranks));
          IndexRange head{0, 0}, columns{0, 0}, o_slices{0, 0}, down_slices{0, 0};
          for (int rank = 0; rank < ranks; ++rank, ++plans) {
            const ShardPlan plan = Plan(config, {.num_ranks = ranks, .rank = rank});
            EXPECT_EQ(plan.heads.begin, head.end);
            EXPECT_EQ(plan.heads.size() * ranks, heads);
            EXPECT_EQ(plan.kv_heads.begin, plan.heads.begin * kv_heads / heads);
            EXPECT_EQ(plan.kv_heads.size(), std::max(1, kv_heads / ranks));
            // A rank's query heads fall evenly on its KV heads, so that it attends like a model.
            EXPECT_EQ(plan.heads.size() % plan.kv_heads.size(), 0);
            const MlpPart mlp = plan.MlpOf(intermediate);
            EXPECT_EQ(mlp.columns.begin, columns.end);
            EXPECT_EQ(plan.o_proj.num_slices, whole.o_proj.num_slices);
            EXPECT_EQ(plan.o_proj.slices.begin, o_slices.end);
            EXPECT_EQ(plan.o_proj.slices.size() * ranks, plan.o_proj.num_slices);
            EXPECT_EQ(plan.o_proj.slices.begin * plan.o_proj.width,
                      plan.heads.begin * config.head_dim);
            EXPECT_EQ(mlp.down_proj.num_slices, whole.MlpOf(intermediate).down_proj.num_slices);
            EXPECT_EQ(mlp.down_proj.slices.begin, down_slices.end);
            EXPECT_EQ(mlp.down_proj.slices.size() * ranks, mlp.down_proj.num_slices);
            EXPECT_EQ(mlp.down_proj.slices.begin * mlp.down_proj.width, mlp.columns.begin);
            head = plan.heads;
            columns = mlp.columns;
            o_slices = plan.o_proj.slices;
            down_slices = mlp.down_proj.slices;
          }
          EXPECT_EQ(head.end, heads);
          EXPECT_EQ(columns.end, intermediate);
        }
      }
    }
  }
  EXPECT_GT(plans, 500);
}

TEST(ShardPlan, StagesTileTheLayers) {
  for (int layers = 1; layers <= 40; ++layers) {
    const ModelConfig config = Config(1, 1, 1, layers);
    for (int stages = 1; stages <= layers; ++stages) {
      int64_t next = 0;
      for (int stage = 0; stage < stages; ++stage) {
        const IndexRange range = Plan(config, {.num_stages = stages, .stage = stage}).layers;
        EXPECT_EQ(range.begin, next);
        EXPECT_GE(range.size(), layers / stages);
        EXPECT_LE(range.size(), (layers + stages - 1) / stages);
        next = range.end;
      }
      EXPECT_EQ(next, layers);
    }
  }
}

TEST(ShardPlan, LayersThatShareKeysAndValuesAreInOneStage) {
  ModelConfig config = Config(4, 2, 64, /*layers=*/9);
  for (int layer = 6; layer < 9; ++layer) config.layers[layer].attention.kv_source = 4 + layer % 2;
  EXPECT_EQ(FirstSharedLayer(config), 4);
  const auto layers = [&](int stages, int stage) {
    return Plan(config, {.num_stages = stages, .stage = stage}).layers;
  };
  EXPECT_EQ(layers(2, 0), (IndexRange{0, 4}));
  EXPECT_EQ(layers(2, 1), (IndexRange{4, 9}));
  EXPECT_EQ(layers(3, 0), (IndexRange{0, 2}));
  EXPECT_EQ(layers(3, 2), (IndexRange{4, 9}));
  EXPECT_EQ(layers(5, 3), (IndexRange{3, 4}));
  EXPECT_THAT(Refusal(config, {.num_stages = 6}),
              HasSubstr("accepted for this model: 1 to 5: layers from 4 on share keys and values"));
}

TEST(ShardPlan, LayersMayHaveHeadsOfTheirOwn) {
  ModelConfig config = Config(8, 4, 64);
  config.layers[1].attention.head_dim = 16;
  config.layers[1].attention.num_kv_heads = 1;
  const ShardPlan plan = Plan(config, {.num_ranks = 2, .rank = 1});
  EXPECT_EQ(KvHeadsOf(0, config, plan), (IndexRange{2, 4}));
  EXPECT_EQ(KvHeadsOf(1, config, plan), (IndexRange{0, 1}));
  const TensorId q{TensorRole::kQ, 1}, k{TensorRole::kK, 1}, o{TensorRole::kO, 1};
  EXPECT_EQ(ShapeOf(q, config), (MatrixShape{8 * 16, 64}));
  EXPECT_EQ(SliceOf(q, config, plan).rows, (IndexRange{64, 128}));
  EXPECT_EQ(SliceOf(k, config, plan).rows, (IndexRange{0, 16}));
  EXPECT_EQ(SliceOf(o, config, plan).columns, (IndexRange{64, 128}));
  config.layers[1].attention.num_kv_heads = 3;
  EXPECT_THAT(Refusal(config, {.num_ranks = 2}), HasSubstr("num_key_value_heads, 3"));
}

}  // namespace
}  // namespace sluice
