// Whether what reads memory can keep it busy: the bytes that blocks of threads have under way,
// against what Little's law asks of them. Figures of an H200; nothing is measured here.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "kernels/cuda/attention_plan.h"
#include "kernels/cuda/attention_shape.h"
#include "kernels/cuda/gemm_plan.h"

namespace sluice::cuda {
namespace {

constexpr int kMultiprocessors = 132;
constexpr int64_t kSharedOfBlock = 227 << 10, kSharedOfAll = 228 << 10, kReserved = 1 << 10;
constexpr int64_t kThreadsOfAll = 2048;
constexpr double kBytesPerSecond = 4.3e12;  // copies, as seen
// From a request to its data while memory is busy: about 0.5 us where it is idle, and as much
// again.
constexpr double kLatencySeconds = 1e-6;

// What a multiprocessor must have under way to get its share of the bandwidth.
constexpr double kNeeded = kBytesPerSecond * kLatencySeconds / kMultiprocessors;

constexpr int64_t BlocksAtATime(int64_t shared_bytes) {
  return kSharedOfAll / (shared_bytes + kReserved);
}

struct Matrix {
  const char* name;
  int64_t outputs, inputs;
  int slices;
  bool gated;
};
// Llama 3 8B: queries, keys and values; output; gates and ups; down; the head.
constexpr Matrix kMatrices[] = {{"qkv", 6144, 4096, 1, false},
                                {"o", 4096, 4096, 8, false},
                                {"gate_up", 28672, 4096, 1, true},
                                {"down", 4096, 14336, 8, false},
                                {"head", 128256, 4096, 1, false}};

// A product of one row.
struct DecodeProduct {
  DecodeProduct(const Matrix& matrix, ImageFormat format, GemmPath path)
      : runs(RunsOf(matrix.inputs, matrix.slices)),
        plan(PlanGemm(1, NumTiles(matrix.outputs, matrix.gated), runs, format,
                      {kMultiprocessors, kSharedOfBlock, path})),
        shape(ShapeOf(plan.tile, path, format)),
        at_a_time(std::min(BlocksAtATime(GemmSharedBytes(plan.tile, format, runs.num_runs, path)),
                           kThreadsOfAll / shape.threads())) {
    EXPECT_EQ(plan.tile, GemmTile::kDecode);
  }

  const RunShape runs;
  const GemmPlan plan;
  const GemmTileShape shape;
  const int64_t at_a_time;  // blocks that a multiprocessor runs
};

// Bytes of weights that a product has under way on a multiprocessor.
double UnderWay(const DecodeProduct& product, ImageFormat format, GemmPath path) {
  // The stage that is multiplied, and on Hopper the one before it, are not under way.
  const int ahead = product.shape.stages - (path == GemmPath::kHopper ? 2 : 1);
  const int64_t of_block = ahead * product.shape.tiles() * UnitBytes(format);
  // In the mean of multiprocessors: memory serves all.
  const double blocks = std::min(static_cast<double>(product.at_a_time),
                                 static_cast<double>(product.plan.blocks()) / kMultiprocessors);
  return blocks * static_cast<double>(of_block);
}

TEST(BytesInFlight, DecodeProductsKeepMemoryBusy) {
  for (const GemmPath path : {GemmPath::kPortable, GemmPath::kHopper}) {
    for (const Matrix& matrix : kMatrices) {
      for (const ImageFormat format :
           {ImageFormat::kBF16, ImageFormat::kFp8, ImageFormat::kInt8, ImageFormat::kInt4}) {
        // The portable path serves GPUs whose memory is half as fast.
        if (path == GemmPath::kPortable && format == ImageFormat::kInt4) continue;
        const DecodeProduct product(matrix, format, path);
        EXPECT_GE(UnderWay(product, format, path), kNeeded)
            << matrix.name << " "
            << "format " << static_cast<int>(format);
      }
    }
  }
}

// Blocks that begin when others end find memory idle at the end. The head's are so many that it is
// for a small part of them.
TEST(BytesInFlight, DecodeProductsOnHopperAreOneWaveOfBlocks) {
  for (const Matrix& matrix : kMatrices) {
    for (const ImageFormat format :
         {ImageFormat::kBF16, ImageFormat::kInt8, ImageFormat::kInt4, ImageFormat::kFp8}) {
      const DecodeProduct product(matrix, format, GemmPath::kHopper);
      EXPECT_GE(product.at_a_time, LeastBlocks(GemmTile::kDecode)) << matrix.name;
      if (matrix.outputs > 100'000) continue;
      EXPECT_LE(product.plan.blocks(), product.at_a_time * kMultiprocessors)
          << matrix.name << " "
          << "format " << static_cast<int>(format);
    }
  }
}

TEST(BytesInFlight, DecodeAttentionKeepsMemoryBusy) {
  // Heads of 128 in BF16: a tile of keys and values on its way in each of a multiprocessor's
  // blocks.
  constexpr int64_t kBlocks =
      BlocksAtATime(AttentionSharedBytesOf(128, DType::kBF16, kRowsOfTile, 2));
  static_assert(kBlocks == AttentionBlockShape<128, DType::kBF16, kRowsOfTile>::kLeastBlocks);
  EXPECT_GE(static_cast<double>(kBlocks * 2 * KvTileBytes(128, 1)), kNeeded);
  // 32 sequences of 8,192 positions with 8 KV heads, cut where that makes too few tiles.
  constexpr int64_t kAtATime = kBlocks * kMultiprocessors;
  const std::vector<int32_t> table(8192 / 16);
  const std::vector<AttentionSegment> segments(
      32, {.num_rows = 1, .first_position = 8191, .block_table = table});
  AttentionPlan plan;
  PlanAttention(segments, {.group = 4, .num_kv_heads = 8}, {.decode_blocks = kAtATime}, plan);
  EXPECT_GE(static_cast<int64_t>(plan.decode.size()) * 8, kAtATime);
}

// Codes are half the bytes, and room for a tile of BF16 numbers stands in each block.
TEST(BytesInFlight, DecodeAttentionOverFp8HasAsManyBlocksAsOverBFloat16) {
  constexpr DType kFp8 = DType::kF8E4M3;
  constexpr int64_t kBlocks = BlocksAtATime(AttentionSharedBytesOf(128, kFp8, kRowsOfTile, 2));
  static_assert(kBlocks == AttentionBlockShape<128, kFp8, kRowsOfTile>::kLeastBlocks);
  EXPECT_GE(static_cast<double>(kBlocks * KvStageBytes(128, kFp8)), kNeeded);
}

TEST(BytesInFlight, LargeTilesAreTakenForEveryMatrixOfAPrefill) {
  for (const GemmPath path : {GemmPath::kPortable, GemmPath::kHopper, GemmPath::kPipelined}) {
    for (const Matrix& matrix : kMatrices) {
      const GemmPlan plan = PlanGemm(2048, NumTiles(matrix.outputs, matrix.gated),
                                     RunsOf(matrix.inputs, matrix.slices), ImageFormat::kBF16,
                                     {kMultiprocessors, kSharedOfBlock, path});
      EXPECT_EQ(plan.tile, GemmTile::kLarge) << matrix.name;
      EXPECT_EQ(plan.splits, 1) << matrix.name;
      EXPECT_EQ(plan.path, path) << matrix.name;
    }
  }
}

}  // namespace
}  // namespace sluice::cuda
