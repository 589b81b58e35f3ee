// How a product is shared out among blocks of threads. None of it changes bits: every output is
// one chain of one instruction over each run of K, and the runs are joined by one tree, whichever
// blocks sum them. Pure functions.
#pragma once

#include <cstdint>

#include "kernels/cuda/tile_image.h"

namespace sluice::cuda {

// What a block multiplies: outputs times tokens.
enum class GemmTile : uint8_t {
  kDecode,  // 64 x 16
  kMiddle,  // 64 x 64
  kLarge,   // 128 x 128
};

struct GemmTileShape {
  int warps_by_outputs;  // warps side by side
  int warps_by_tokens;
  int tiles_per_warp;    // of 16 outputs
  int columns_per_warp;  // of 8 tokens, even
  int stages;            // units of K that are under way at a time

  constexpr int outputs() const { return warps_by_outputs * tiles_per_warp * kTileOutputs; }
  constexpr int tiles() const { return warps_by_outputs * tiles_per_warp; }
  constexpr int tokens() const { return warps_by_tokens * columns_per_warp * 8; }
  constexpr int threads() const { return warps_by_outputs * warps_by_tokens * kWarpSize; }
  // Sums that a thread holds.
  constexpr int sums() const { return tiles_per_warp * columns_per_warp * 4; }
};

constexpr GemmTileShape ShapeOf(GemmTile tile) {
  switch (tile) {
    case GemmTile::kDecode:
      return {4, 1, 1, 2, 4};
    case GemmTile::kMiddle:
      return {2, 2, 2, 4, 3};
    case GemmTile::kLarge:
      return {2, 4, 4, 4, 3};
  }
  return {};
}

constexpr int Levels(int64_t count) {
  int levels = 0;
  while (int64_t{1} << levels < count) ++levels;
  return levels;
}

// Shared memory of a block: stages of weights and activations, then sums that wait for their
// neighbours in the tree over `joined` runs or partial sums.
constexpr int64_t StageBytes(GemmTile tile, WeightFormat format) {
  return int64_t{ShapeOf(tile).tiles()} * UnitBytes(format) +
         int64_t{ShapeOf(tile).tokens()} * kUnitInputs * 2;
}
constexpr int64_t GemmSharedBytes(GemmTile tile, WeightFormat format, int64_t joined) {
  const GemmTileShape shape = ShapeOf(tile);
  return shape.stages * StageBytes(tile, format) +
         int64_t{Levels(joined)} * shape.sums() * shape.threads() * 4;
}

struct GemmPlan {
  GemmTile tile = GemmTile::kDecode;
  int splits = 1;  // blocks that share the runs of an output, a power of two
  int64_t output_blocks = 0;
  int64_t token_blocks = 0;

  constexpr int64_t blocks() const { return output_blocks * token_blocks * splits; }
  // Elements of F32 that splits leave for the last of them.
  constexpr int64_t partial_floats() const {
    const GemmTileShape shape = ShapeOf(tile);
    return splits == 1 ? 0 : blocks() * shape.sums() * shape.threads();
  }
  constexpr int64_t counters() const { return splits == 1 ? 0 : output_blocks * token_blocks; }
};

constexpr GemmPlan PlanWith(GemmTile tile, int64_t rows, int64_t num_tiles) {
  const GemmTileShape shape = ShapeOf(tile);
  return {.tile = tile,
          .output_blocks = (num_tiles + shape.tiles() - 1) / shape.tiles(),
          .token_blocks = (rows + shape.tokens() - 1) / shape.tokens()};
}

// A product of `rows` rows with a matrix of `num_tiles` tiles, on a device with so many
// multiprocessors, whose blocks may have so much shared memory.
constexpr GemmPlan PlanGemm(int64_t rows, int64_t num_tiles, RunShape runs, WeightFormat format,
                            int num_multiprocessors, int64_t shared_bytes) {
  GemmTile tile =
      rows <= ShapeOf(GemmTile::kDecode).tokens() ? GemmTile::kDecode : GemmTile::kMiddle;
  const bool fits_large = GemmSharedBytes(GemmTile::kLarge, format, runs.num_runs) <= shared_bytes;
  if (rows > ShapeOf(GemmTile::kMiddle).tokens() && fits_large &&
      PlanWith(GemmTile::kLarge, rows, num_tiles).blocks() >= num_multiprocessors) {
    tile = GemmTile::kLarge;
  }
  if (GemmSharedBytes(tile, format, runs.num_runs) > shared_bytes) tile = GemmTile::kDecode;
  GemmPlan plan = PlanWith(tile, rows, num_tiles);
  while (plan.splits < runs.num_runs && plan.blocks() < 2 * num_multiprocessors) plan.splits *= 2;
  return plan;
}

}  // namespace sluice::cuda
