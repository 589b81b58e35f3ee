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

// Which instructions multiply. Their sums are not held to have the same bits.
enum class GemmPath : uint8_t {
  kPortable,  // mma.sync, by each warp: compute capability 8.0 and later
  kHopper,    // wgmma, by four warps together: compute capability 9.0
};

struct GemmTileShape {
  int warps_by_outputs;  // warps side by side
  int warps_by_tokens;
  int tiles_per_warp;    // of 16 outputs
  int columns_per_warp;  // of 8 tokens, even
  int stages;            // units of K that are under way at a time
  int held_levels = 0;   // of sums that wait for their neighbours in registers

  constexpr int outputs() const { return warps_by_outputs * tiles_per_warp * kTileOutputs; }
  constexpr int tiles() const { return warps_by_outputs * tiles_per_warp; }
  constexpr int tokens() const { return warps_by_tokens * columns_per_warp * 8; }
  constexpr int threads() const { return warps_by_outputs * warps_by_tokens * kWarpSize; }
  // Sums that a thread holds.
  constexpr int sums() const { return tiles_per_warp * columns_per_warp * 4; }
};

constexpr GemmTileShape PortableShape(GemmTile tile) {
  switch (tile) {
    case GemmTile::kDecode:
      return {4, 1, 1, 2, 5};
    case GemmTile::kMiddle:
      return {2, 2, 2, 4, 3};
    case GemmTile::kLarge:
      return {2, 4, 4, 4, 3, 1};
  }
  return {};
}
// One stage more is being read while the next ones come.
constexpr GemmTileShape HopperShape(GemmTile tile) {
  switch (tile) {
    case GemmTile::kDecode:
      return {4, 1, 1, 2, 6};
    case GemmTile::kMiddle:
      return {4, 1, 1, 8, 5, 2};
    case GemmTile::kLarge:
      return {8, 1, 1, 16, 4, 2};
  }
  return {};
}
// Outputs, tokens, threads and sums of a tile are the same on both paths.
constexpr GemmTileShape ShapeOf(GemmTile tile, GemmPath path = GemmPath::kPortable) {
  return path == GemmPath::kHopper ? HopperShape(tile) : PortableShape(tile);
}

constexpr int Levels(int64_t count) {
  int levels = 0;
  while (int64_t{1} << levels < count) ++levels;
  return levels;
}

// Shared memory of a block: stages of weights and activations, then sums that wait for their
// neighbours in the tree over `joined` runs or partial sums, as far as registers don't hold them.
// Activations lie behind the weights of their stage, where an instruction of the path can find them.
constexpr int64_t StageWeightBytes(GemmTile tile, WeightFormat format, GemmPath path) {
  constexpr int64_t kHopperAlignment = 1024;  // kSwizzleBytes of shared_descriptor.h
  const int64_t bytes = int64_t{ShapeOf(tile).tiles()} * UnitBytes(format);
  if (path == GemmPath::kPortable) return bytes;
  return (bytes + kHopperAlignment - 1) / kHopperAlignment * kHopperAlignment;
}
constexpr int64_t StageBytes(GemmTile tile, WeightFormat format, GemmPath path) {
  return StageWeightBytes(tile, format, path) + int64_t{ShapeOf(tile).tokens()} * kUnitInputs * 2;
}
constexpr int64_t GemmSharedBytes(GemmTile tile, WeightFormat format, int64_t joined,
                                  GemmPath path = GemmPath::kPortable) {
  const GemmTileShape shape = ShapeOf(tile, path);
  const int levels = Levels(joined) > shape.held_levels ? Levels(joined) - shape.held_levels : 0;
  return shape.stages * StageBytes(tile, format, path) +
         int64_t{levels} * shape.sums() * shape.threads() * 4;
}

struct GemmPlan {
  GemmTile tile = GemmTile::kDecode;
  GemmPath path = GemmPath::kPortable;
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

// What products are planned for.
struct GemmDevice {
  int num_multiprocessors = 1;
  int64_t shared_bytes = 0;  // that a block may have
  GemmPath path = GemmPath::kPortable;
};

// A product of `rows` rows with a matrix of `num_tiles` tiles. Weights whose sums are scaled by group
// take the portable path everywhere.
constexpr GemmPlan PlanGemm(int64_t rows, int64_t num_tiles, RunShape runs, WeightFormat format,
                            const GemmDevice& device) {
  const GemmPath path = ScalesGroupSums(format) ? GemmPath::kPortable : device.path;
  const auto fits = [&](GemmTile tile) {
    return GemmSharedBytes(tile, format, runs.num_runs, path) <= device.shared_bytes;
  };
  GemmTile tile =
      rows <= ShapeOf(GemmTile::kDecode).tokens() ? GemmTile::kDecode : GemmTile::kMiddle;
  if (rows > ShapeOf(GemmTile::kMiddle).tokens() && fits(GemmTile::kLarge) &&
      PlanWith(GemmTile::kLarge, rows, num_tiles).blocks() >= device.num_multiprocessors) {
    tile = GemmTile::kLarge;
  }
  if (!fits(tile)) tile = GemmTile::kDecode;
  GemmPlan plan = PlanWith(tile, rows, num_tiles);
  plan.path = path;
  while (plan.splits < runs.num_runs && plan.blocks() < int64_t{2} * device.num_multiprocessors) {
    plan.splits *= 2;
  }
  return plan;
}

}  // namespace sluice::cuda
