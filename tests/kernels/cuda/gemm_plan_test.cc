#include "kernels/cuda/gemm_plan.h"

#include <gtest/gtest.h>

#include "kernels/cuda/shared_descriptor.h"

namespace sluice::cuda {
namespace {

constexpr int64_t kShared = 227 << 10;
constexpr int64_t kLittleShared = 99 << 10;

TEST(GemmPlan, CoversEveryOutputAndToken) {
  for (const int64_t rows : {1, 8, 16, 17, 64, 65, 100, 2048}) {
    for (const int64_t tiles : {1, 5, 64, 896}) {
      for (const int64_t shared : {kShared, kLittleShared}) {
        const RunShape runs = RunsOf(4096, 8);
        const GemmPlan plan = PlanGemm(rows, tiles, runs, WeightFormat::kBF16, {132, shared});
        const GemmTileShape shape = ShapeOf(plan.tile);
        EXPECT_GE(plan.output_blocks * shape.tiles(), tiles);
        EXPECT_GE(plan.token_blocks * shape.tokens(), rows);
        EXPECT_EQ(runs.num_runs % plan.splits, 0);
        EXPECT_LE(GemmSharedBytes(plan.tile, WeightFormat::kBF16, runs.num_runs), shared);
      }
    }
  }
}

TEST(GemmPlan, FewRowsKeepAllMultiprocessorsBusy) {
  // Llama 3 8B: queries, keys and values; output; gates and ups; down.
  const struct {
    int64_t outputs, inputs;
    int slices;
  } matrices[] = {{6144, 4096, 1}, {4096, 4096, 8}, {28672, 4096, 1}, {4096, 14336, 8}};
  for (const auto& [outputs, inputs, slices] : matrices) {
    const GemmPlan plan = PlanGemm(1, NumTiles(outputs, false), RunsOf(inputs, slices),
                                   WeightFormat::kBF16, {132, kShared});
    EXPECT_EQ(plan.tile, GemmTile::kDecode);
    EXPECT_GE(plan.blocks(), 2 * 132) << outputs;
  }
}

TEST(GemmPlan, PathsCutProductsAlike) {
  for (const GemmTile tile : {GemmTile::kDecode, GemmTile::kMiddle, GemmTile::kLarge}) {
    const GemmTileShape portable = ShapeOf(tile), hopper = ShapeOf(tile, GemmPath::kHopper);
    EXPECT_EQ(portable.outputs(), hopper.outputs());
    EXPECT_EQ(portable.tokens(), hopper.tokens());
    EXPECT_EQ(portable.threads(), hopper.threads());
    EXPECT_EQ(portable.sums(), hopper.sums());
  }
}

TEST(GemmPlan, WeightsWhoseGroupSumsAreScaledTakeThePortablePath) {
  const GemmDevice device{132, kShared, GemmPath::kHopper};
  const RunShape runs = RunsOf(4096, 8);
  EXPECT_EQ(PlanGemm(1, 64, runs, WeightFormat::kBF16, device).path, GemmPath::kHopper);
  EXPECT_EQ(PlanGemm(1, 64, runs, WeightFormat::kInt8, device).path, GemmPath::kPortable);
  EXPECT_EQ(PlanGemm(1, 64, runs, WeightFormat::kFp8, device).path, GemmPath::kHopper);
}

TEST(GemmPlan, SharedMemoryOfEveryTileAndFormatIsAligned) {
  for (const GemmTile tile : {GemmTile::kDecode, GemmTile::kMiddle, GemmTile::kLarge}) {
    for (const WeightFormat format :
         {WeightFormat::kBF16, WeightFormat::kInt8, WeightFormat::kInt4, WeightFormat::kFp8}) {
      EXPECT_EQ(StageBytes(tile, format, GemmPath::kPortable) % 128, 0);
      if (ScalesGroupSums(format)) continue;
      EXPECT_EQ(StageWeightBytes(tile, format, GemmPath::kHopper) % kSwizzleBytes, 0);
      EXPECT_EQ(StageBytes(tile, format, GemmPath::kHopper) % kSwizzleBytes, 0);
    }
  }
}

}  // namespace
}  // namespace sluice::cuda
