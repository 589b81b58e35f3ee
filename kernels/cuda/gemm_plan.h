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
  // The same instructions, with copies in bulk that one thread asks for (gemm_pipeline.h), for large
  // tiles; the others are kHopper's. The same bits.
  kPipelined,
};

// Blocks of a large tile that share tokens and fetch them for each other.
inline constexpr int kClusterBlocks = 2;

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
// One stage more is being read while the next ones come. Few rows of BF16 have a stage fewer than
// of other formats, whose stages are half as large, so that as many blocks fit a multiprocessor;
// stages of INT4 are a quarter, and two more of them are under way.
constexpr GemmTileShape HopperShape(GemmTile tile, ImageFormat format = ImageFormat::kBF16) {
  switch (tile) {
    case GemmTile::kDecode:
      if (IsPlain(format)) return {4, 1, 1, 2, 5, 3};
      return {4, 1, 1, 2, format == ImageFormat::kInt4 ? 8 : 6};
    case GemmTile::kMiddle:
      return {4, 1, 1, 8, 5, 2};
    case GemmTile::kLarge:
      return {8, 1, 1, 16, 4, 2};
  }
  return {};
}
// Threads besides those that fetch. Sums of groups (ScalesGroupSums) take the registers of a level.
constexpr GemmTileShape PipelinedShape(ImageFormat format = ImageFormat::kBF16) {
  if (!ScalesGroupSums(format)) return {8, 1, 1, 16, 5, 2};
  return {8, 1, 1, 16, format == ImageFormat::kInt8 ? 3 : 4, 1};
}

// Outputs, tokens, threads and sums of a tile are the same on all paths.
constexpr GemmTileShape ShapeOf(GemmTile tile, GemmPath path = GemmPath::kPortable,
                                ImageFormat format = ImageFormat::kBF16) {
  if (path == GemmPath::kPortable) return PortableShape(tile);
  if (path == GemmPath::kPipelined && tile == GemmTile::kLarge) return PipelinedShape(format);
  return HopperShape(tile, format);
}

// What scales sums takes registers, of which large tiles leave none without those that a pipeline's
// fetching threads give back.
constexpr bool FitsRegistersOnHopper(GemmTile tile, ImageFormat format) {
  return tile != GemmTile::kLarge || (!ScalesGroupSums(format) && format != ImageFormat::kFp8Pairs);
}

// Blocks for which a multiprocessor's registers must have room: as many as its shared memory has room for.
constexpr int LeastBlocks(GemmTile tile) { return tile == GemmTile::kDecode ? 4 : 1; }

// Behind the stages of a pipeline: its barriers (gemm_pipeline.h).
inline constexpr int kPipelineBarrierBytes = 128;

constexpr int Levels(int64_t count) {
  int levels = 0;
  while (int64_t{1} << levels < count) ++levels;
  return levels;
}

// Shared memory of a block: stages of weights and activations, the barriers of a pipeline, then sums
// that wait for their neighbours in the tree over `joined` runs or partial sums, as far as registers
// don't hold them.
// Activations lie behind the weights of their stage, where an instruction of the path can find them.
constexpr int64_t StageWeightBytes(GemmTile tile, ImageFormat format, GemmPath path) {
  constexpr int64_t kHopperAlignment = 1024;  // kSwizzleBytes of shared_descriptor.h
  const int64_t bytes = int64_t{ShapeOf(tile).tiles()} * UnitBytes(format);
  if (path == GemmPath::kPortable) return bytes;
  return (bytes + kHopperAlignment - 1) / kHopperAlignment * kHopperAlignment;
}
constexpr int64_t StageBytes(GemmTile tile, ImageFormat format, GemmPath path) {
  return StageWeightBytes(tile, format, path) + int64_t{ShapeOf(tile).tokens()} * kUnitInputs * 2;
}
constexpr int64_t WaitingSumsBegin(GemmTile tile, ImageFormat format, GemmPath path) {
  return ShapeOf(tile, path, format).stages * StageBytes(tile, format, path) +
         (path == GemmPath::kPipelined ? kPipelineBarrierBytes : 0);
}
constexpr int64_t GemmSharedBytes(GemmTile tile, ImageFormat format, int64_t joined,
                                  GemmPath path = GemmPath::kPortable) {
  const GemmTileShape shape = ShapeOf(tile, path, format);
  const int levels = Levels(joined) > shape.held_levels ? Levels(joined) - shape.held_levels : 0;
  return WaitingSumsBegin(tile, format, path) +
         int64_t{levels} * shape.sums() * shape.threads() * 4;
}

struct GemmPlan {
  GemmTile tile = GemmTile::kDecode;
  GemmPath path = GemmPath::kPortable;
  int splits = 1;  // blocks that share the runs of an output, a power of two
  int64_t output_blocks = 0;
  int64_t token_blocks = 0;

  constexpr int64_t blocks() const { return output_blocks * token_blocks * splits; }
  constexpr int cluster() const { return path == GemmPath::kPipelined ? kClusterBlocks : 1; }

  // What a block multiplies. Those of a cluster differ in their outputs alone.
  struct BlockPlace {
    int token_block, split, output_block;
  };
  constexpr BlockPlace PlaceOf(int64_t block) const {
    const int64_t shared = block / cluster();
    return {static_cast<int>(shared % token_blocks),
            static_cast<int>(shared / token_blocks % splits),
            static_cast<int>(shared / token_blocks / splits * cluster() + block % cluster())};
  }

  // Elements of F32 that splits leave for the last of them.
  constexpr int64_t partial_floats() const {
    const GemmTileShape shape = ShapeOf(tile);
    return splits == 1 ? 0 : blocks() * shape.sums() * shape.threads();
  }
  constexpr int64_t counters() const { return splits == 1 ? 0 : output_blocks * token_blocks; }
};

// Blocks of a tile that `num_tiles` tiles of weights fill.
constexpr int64_t FilledOutputBlocks(GemmTile tile, int64_t num_tiles) {
  const int tiles = ShapeOf(tile).tiles();
  return (num_tiles + tiles - 1) / tiles;
}

constexpr GemmPlan PlanWith(GemmTile tile, GemmPath path, int64_t rows, int64_t num_tiles) {
  const GemmTileShape shape = ShapeOf(tile);
  GemmPlan plan{.tile = tile,
                .path = path,
                .output_blocks = FilledOutputBlocks(tile, num_tiles),
                .token_blocks = (rows + shape.tokens() - 1) / shape.tokens()};
  // Whole clusters, the last of them perhaps with a block that has no outputs.
  plan.output_blocks = (plan.output_blocks + plan.cluster() - 1) / plan.cluster() * plan.cluster();
  return plan;
}

// What products are planned for.
struct GemmDevice {
  int num_multiprocessors = 1;
  int64_t shared_bytes = 0;  // that a block may have
  GemmPath path = GemmPath::kPortable;
  // Rows from which on large tiles are taken; 0: those of LeastRowsOfLargeTiles().
  int64_t least_rows_of_large_tiles = 0;
};

// A tile of 64 tokens requests as many bytes of the second-level cache for tokens as for weights,
// and the cache is slower than that. A pipeline's large tile requests half as many for tokens and
// waits for memory alone, however few of its tokens there are (roofline.h), unless sums of groups
// take the room of its stages. The other paths copy their stages by instructions of the threads
// that multiply; they take large tiles where small ones would read weights twice.
constexpr int64_t LeastRowsOfLargeTiles(const GemmDevice& device, ImageFormat format) {
  if (device.least_rows_of_large_tiles > 0) return device.least_rows_of_large_tiles;
  constexpr int kMiddleTokens = ShapeOf(GemmTile::kMiddle).tokens();
  const bool is_fed = device.path == GemmPath::kPipelined && !ScalesGroupSums(format);
  return (is_fed ? kMiddleTokens / 2 : kMiddleTokens) + 1;
}

// Splits for large tiles, of which a multiprocessor runs one block at a time: those that end first,
// counted in units of K that blocks go through one after the other. `tiles`: that have outputs.
constexpr int SplitsOfLargeTiles(int64_t tiles, RunShape runs, int num_multiprocessors) {
  // What a block does besides takes as long as some units: it begins and writes its results; where
  // blocks share runs it also leaves its sums and joins those of others, 64 KiB each.
  constexpr int64_t kOfBlock = 8, kOfSharing = 8;
  const int64_t units = runs.num_runs * runs.units();
  const auto duration = [&](int splits) {
    const int64_t rounds = (tiles * splits + num_multiprocessors - 1) / num_multiprocessors;
    return rounds * (units / splits + kOfBlock + (splits > 1 ? kOfSharing : 0));
  };
  int best = 1;
  for (int splits = 2; runs.num_runs % splits == 0; splits *= 2) {
    if (duration(splits) < duration(best)) best = splits;
  }
  return best;
}

// A product of `rows` rows with a matrix of `num_tiles` tiles.
constexpr GemmPlan PlanGemm(int64_t rows, int64_t num_tiles, RunShape runs, ImageFormat format,
                            const GemmDevice& device) {
  const auto path = [&](GemmTile tile) {
    const bool has_others = device.path == GemmPath::kPipelined && tile != GemmTile::kLarge;
    return has_others ? GemmPath::kHopper : device.path;
  };
  const auto plan_of = [&](GemmTile tile) { return PlanWith(tile, path(tile), rows, num_tiles); };
  // Blocks that have outputs.
  const auto working = [&](const GemmPlan& plan) {
    return FilledOutputBlocks(plan.tile, num_tiles) * plan.token_blocks * plan.splits;
  };
  const auto fits = [&](GemmTile tile) {
    if (path(tile) == GemmPath::kHopper && !FitsRegistersOnHopper(tile, format)) return false;
    return GemmSharedBytes(tile, format, runs.num_runs, path(tile)) <= device.shared_bytes;
  };
  // Small tiles read weights and activations more often, so that they are taken only where large ones
  // would leave multiprocessors idle however their runs were shared out.
  const GemmPlan large = plan_of(GemmTile::kLarge);
  if (rows >= LeastRowsOfLargeTiles(device, format) && fits(GemmTile::kLarge) &&
      working(large) * runs.num_runs >= device.num_multiprocessors) {
    GemmPlan plan = large;
    plan.splits = SplitsOfLargeTiles(working(large), runs, device.num_multiprocessors);
    return plan;
  }
  GemmTile tile =
      rows <= ShapeOf(GemmTile::kDecode).tokens() ? GemmTile::kDecode : GemmTile::kMiddle;
  if (!fits(tile)) tile = GemmTile::kDecode;
  GemmPlan plan = plan_of(tile);
  while (plan.splits < runs.num_runs && working(plan) < int64_t{2} * device.num_multiprocessors) {
    plan.splits *= 2;
  }
  return plan;
}

}  // namespace sluice::cuda
