#include "kernels/cuda/gemm_plan.h"

#include <gtest/gtest.h>

#include <vector>

#include "kernels/cuda/shared_descriptor.h"
#include "kernels/device/self_check.h"
#include "tests/gpu/host/host_gpu.h"

namespace sluice::cuda {
namespace {

constexpr int64_t kShared = 227 << 10;
constexpr int64_t kLittleShared = 99 << 10;

TEST(GemmPlan, CoversEveryOutputAndToken) {
  for (const int64_t rows : {1, 8, 16, 17, 64, 65, 100, 2048}) {
    for (const int64_t tiles : {1, 5, 64, 896}) {
      for (const int64_t shared : {kShared, kLittleShared}) {
        const RunShape runs = RunsOf(4096, 8);
        const GemmPlan plan = PlanGemm(rows, tiles, runs, ImageFormat::kBF16, {132, shared});
        const GemmTileShape shape = ShapeOf(plan.tile);
        EXPECT_GE(plan.output_blocks * shape.tiles(), tiles);
        EXPECT_GE(plan.token_blocks * shape.tokens(), rows);
        EXPECT_EQ(runs.num_runs % plan.splits, 0);
        EXPECT_LE(GemmSharedBytes(plan.tile, ImageFormat::kBF16, runs.num_runs), shared);
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
                                   ImageFormat::kBF16, {132, kShared});
    EXPECT_EQ(plan.tile, GemmTile::kDecode);
    EXPECT_GE(plan.blocks(), 2 * 132) << outputs;
  }
}

TEST(GemmPlan, PathsCutProductsAlike) {
  for (const GemmTile tile : {GemmTile::kDecode, GemmTile::kMiddle, GemmTile::kLarge}) {
    for (const GemmPath path : {GemmPath::kHopper, GemmPath::kPipelined}) {
      for (const ImageFormat format : {ImageFormat::kBF16, ImageFormat::kInt8}) {
        const GemmTileShape portable = ShapeOf(tile), other = ShapeOf(tile, path, format);
        EXPECT_EQ(portable.outputs(), other.outputs());
        EXPECT_EQ(portable.tokens(), other.tokens());
        EXPECT_EQ(portable.threads(), other.threads());
        EXPECT_EQ(portable.sums(), other.sums());
      }
    }
  }
}

// Few rows and many take the same instruction, and its sums the registers that there are.
TEST(GemmPlan, WeightsWhoseGroupSumsAreScaledHaveLargeTilesInThePipelineAlone) {
  const RunShape runs = RunsOf(4096, 8);
  for (const ImageFormat format : {ImageFormat::kInt8, ImageFormat::kInt4}) {
    const auto plan = [&](int64_t rows, GemmPath path) {
      return PlanGemm(rows, 512, runs, format, {132, kShared, path});
    };
    EXPECT_EQ(plan(1, GemmPath::kPipelined).path, GemmPath::kHopper);
    EXPECT_EQ(plan(2048, GemmPath::kPipelined).path, GemmPath::kPipelined);
    EXPECT_EQ(plan(2048, GemmPath::kPipelined).tile, GemmTile::kLarge);
    EXPECT_EQ(plan(2048, GemmPath::kHopper).path, GemmPath::kHopper);
    EXPECT_EQ(plan(2048, GemmPath::kHopper).tile, GemmTile::kMiddle);
    EXPECT_EQ(plan(2048, GemmPath::kPortable).tile, GemmTile::kLarge);
  }
}

// A plan that nobody makes: what no kernel was made for would leave the outputs as they were.
TEST(GemmPlanDeathTest, ALargeTileWithSumsOfGroupsOutsideThePipelineIsABrokenInvariant) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto gpu = MakeHostGpu({.gemm_path = GemmPath::kHopper});
  for (const ImageFormat format : {ImageFormat::kInt8, ImageFormat::kInt4}) {
    const GemmTask task{.weights = {.format = format},
                        .plan = {.tile = GemmTile::kLarge, .path = GemmPath::kHopper}};
    EXPECT_DEATH(gpu->kernels().gemm(gpu->stream(), task), "broken invariant: .*kLarge");
  }
}

// Else large tiles would be taken, or runs left whole, for blocks that do nothing.
TEST(GemmPlan, BlocksWithoutOutputsAreNoWork) {
  const GemmDevice device{132, kShared, GemmPath::kPipelined};
  const auto plan = [&](int64_t output_blocks, int64_t rows) {
    return PlanGemm(rows, output_blocks * 8, RunsOf(4096, 8), ImageFormat::kBF16, device);
  };
  const int64_t rows = 66 * 128;
  EXPECT_EQ(plan(1, rows).tile, GemmTile::kLarge);
  EXPECT_EQ(plan(1, rows).splits, 2);  // 66 blocks, and as many without outputs
  EXPECT_EQ(plan(2, rows).splits, 1);
}

// A few hundred rows, as when prompts come beside decode: large tiles are too few by themselves, and
// fill the device where blocks share runs.
TEST(GemmPlan, HundredsOfRowsTakeLargeTilesThatShareRuns) {
  const struct {
    int64_t outputs, inputs;
    int slices;
    std::vector<int> splits;  // for 96, 128, 256, 512 and 1,024 rows
  } matrices[] = {{6144, 4096, 1, {2, 2, 1, 1, 1}},
                  {4096, 4096, 8, {4, 4, 2, 1, 1}},
                  {28672, 4096, 1, {1, 1, 1, 1, 1}},
                  {4096, 14336, 8, {4, 4, 2, 1, 1}}};
  for (const auto& [outputs, inputs, slices, splits] : matrices) {
    size_t i = 0;
    for (const int64_t rows : {96, 128, 256, 512, 1024}) {
      const GemmPlan plan = PlanGemm(rows, NumTiles(outputs, false), RunsOf(inputs, slices),
                                     ImageFormat::kBF16, {132, kShared, GemmPath::kPipelined});
      EXPECT_EQ(plan.tile, GemmTile::kLarge) << outputs << " " << rows;
      EXPECT_EQ(plan.splits, splits[i++]) << outputs << " x " << inputs << ", " << rows;
    }
  }
}

// Rows that fit a small tile, and outputs too few for all of a large device.
TEST(GemmPlan, SmallTilesAreLeftWhereLargeOnesWouldIdle) {
  const auto tile = [](int64_t rows, int64_t outputs, RunShape runs) {
    return PlanGemm(rows, NumTiles(outputs, false), runs, ImageFormat::kBF16,
                    {132, kShared, GemmPath::kPipelined})
        .tile;
  };
  EXPECT_EQ(tile(32, 4096, RunsOf(4096, 8)), GemmTile::kMiddle);
  EXPECT_EQ(tile(33, 4096, RunsOf(4096, 8)), GemmTile::kLarge);
  EXPECT_EQ(tile(65, 2048, RunsOf(4096, 8)), GemmTile::kMiddle);
}

TEST(GemmPlan, RowsFromWhichLargeTilesAreTakenFollowThePathAndTheDevice) {
  const auto tile = [](int64_t rows, GemmDevice device) {
    device.num_multiprocessors = 132;
    device.shared_bytes = kShared;
    return PlanGemm(rows, NumTiles(4096, false), RunsOf(4096, 8), ImageFormat::kBF16, device).tile;
  };
  for (const GemmPath path : {GemmPath::kPortable, GemmPath::kHopper}) {
    EXPECT_EQ(tile(64, {.path = path}), GemmTile::kMiddle);
    EXPECT_EQ(tile(65, {.path = path}), GemmTile::kLarge);
  }
  const GemmDevice early{.path = GemmPath::kPipelined, .least_rows_of_large_tiles = 17};
  EXPECT_EQ(tile(16, early), GemmTile::kDecode);
  EXPECT_EQ(tile(17, early), GemmTile::kLarge);
  const GemmDevice late{.path = GemmPath::kPipelined, .least_rows_of_large_tiles = 65};
  EXPECT_EQ(tile(64, late), GemmTile::kMiddle);
}

// Multiples of what one block takes for all units: rounds of blocks, each with its share.
TEST(GemmPlan, LargeTilesAreSharedOutWhereThatEndsSooner) {
  const RunShape runs{.num_runs = 8, .depth = 512};  // 64 units
  EXPECT_EQ(SplitsOfLargeTiles(132, runs, 132), 1);
  EXPECT_EQ(SplitsOfLargeTiles(133, runs, 132), 1);  // 2 rounds of 72 units, or 3 of 48
  EXPECT_EQ(SplitsOfLargeTiles(66, runs, 132), 2);
  EXPECT_EQ(SplitsOfLargeTiles(33, runs, 132), 4);
  EXPECT_EQ(SplitsOfLargeTiles(1, runs, 132), 8);
  EXPECT_EQ(SplitsOfLargeTiles(1, {.num_runs = 1, .depth = 4096}, 132), 1);
  EXPECT_EQ(SplitsOfLargeTiles(1, {.num_runs = 6, .depth = 4096}, 132), 2);
  // Fewer where it makes no difference.
  EXPECT_EQ(SplitsOfLargeTiles(96, {.num_runs = 4, .depth = 1024}, 132), 1);
}

// A GPU that passes has gone through what is new in the pipeline.
TEST(GemmPlan, TheSelfChecksProductGoesRoundThePipeline) {
  for (const int multiprocessors : {1, 4, 78, 114, 132}) {
    const BatchSizes sizes = BatchSizesFor(multiprocessors);
    const int64_t tiles = NumTiles(sizes.outputs, false);
    const RunShape runs = RunsOf(sizes.inputs_per_slice * BatchSizes::kSlices, BatchSizes::kSlices);
    for (const ImageFormat format :
         {ImageFormat::kBF16, ImageFormat::kFp8, ImageFormat::kInt8, ImageFormat::kInt4}) {
      const auto plan = [&](int64_t rows) {
        return PlanGemm(rows, tiles, runs, format,
                        {multiprocessors, kShared, GemmPath::kPipelined});
      };
      // Ranges of 16 and 32 rows have the other two tiles.
      EXPECT_EQ(plan(16).tile, GemmTile::kDecode);
      EXPECT_EQ(plan(32).tile, GemmTile::kMiddle);
      const GemmPlan all = plan(sizes.rows);
      EXPECT_EQ(all.path, GemmPath::kPipelined);
      EXPECT_EQ(all.splits, 1);
      EXPECT_GT(runs.num_runs, 1);
      EXPECT_GT(runs.units(), 2 * PipelinedShape(format).stages);
      // A cluster has a block without outputs.
      EXPECT_LT(FilledOutputBlocks(GemmTile::kLarge, tiles), all.output_blocks);
      EXPECT_EQ(RowsThatShareSlices(sizes) > 0, multiprocessors > 4);
      if (multiprocessors > 4) {
        const GemmPlan fewer = plan(RowsThatShareSlices(sizes));
        EXPECT_EQ(fewer.path, GemmPath::kPipelined) << multiprocessors;
        EXPECT_EQ(fewer.splits, 2) << multiprocessors;
      }
    }
  }
}

TEST(GemmPlan, SharedMemoryOfEveryTileAndFormatIsAligned) {
  for (const GemmTile tile : {GemmTile::kDecode, GemmTile::kMiddle, GemmTile::kLarge}) {
    for (const ImageFormat format :
         {ImageFormat::kBF16, ImageFormat::kInt8, ImageFormat::kInt4, ImageFormat::kFp8}) {
      EXPECT_EQ(StageBytes(tile, format, GemmPath::kPortable) % 128, 0);
      EXPECT_EQ(StageWeightBytes(tile, format, GemmPath::kHopper) % kSwizzleBytes, 0);
      EXPECT_EQ(StageBytes(tile, format, GemmPath::kHopper) % kSwizzleBytes, 0);
    }
  }
}

}  // namespace
}  // namespace sluice::cuda
