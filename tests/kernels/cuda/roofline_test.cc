// What the plans of products and attention cost on an H100 or H200, by arithmetic: no block that
// has much more work than others, shared memory and second-level cache that keep up, no rounds of
// blocks that are nearly empty.
#include "kernels/cuda/roofline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/gemm_pipeline.h"

namespace sluice::cuda {
namespace {

constexpr ImageFormat kBF16 = ImageFormat::kBF16;
constexpr GpuRates kGpus[] = {kH100Rates, kH200Rates};

GemmPlan PlanOf(const ProductShape& shape, int64_t rows, int64_t least_rows_of_large_tiles = 0) {
  return PlanGemm(rows, NumTiles(shape.outputs, shape.gated), RunsOf(shape, kBF16), kBF16,
                  {.num_multiprocessors = 132,
                   .shared_bytes = kH200Rates.shared_bytes_of_block,
                   .path = GemmPath::kPipelined,
                   .least_rows_of_large_tiles = least_rows_of_large_tiles});
}

// Seconds for which one resource alone would be needed, without rounds of blocks or launches.
double LeastSeconds(const KernelCost& cost, const GpuRates& rates) {
  const double clocks = rates.num_multiprocessors * rates.clocks_per_second;
  return std::max({cost.memory_bytes / rates.memory_bytes_per_second,
                   cost.l2_bytes / rates.l2_bytes_per_clock / clocks, cost.tensor_clocks / clocks});
}

std::vector<AttentionSegment> Streams(int count, int64_t context,
                                      const std::vector<int32_t>& table) {
  std::vector<AttentionSegment> segments;
  for (int i = 0; i < count; ++i) {
    segments.push_back(
        {.first_row = i, .num_rows = 1, .first_position = context - 1, .block_table = table});
  }
  return segments;
}

constexpr AttentionShape kHeads8b = {.group = 4, .num_kv_heads = 8};

TEST(Roofline, NoBlockOfAttentionHasTwiceTheMean) {
  const std::vector<int32_t> table(32768 / 16);
  for (int streams = 1; streams <= 256; streams += streams < 72 ? 1 : 23) {
    for (const int64_t context : {100, 1024, 8192}) {
      const AttentionCosts costs = CostOfAttention(Streams(streams, context, table), kHeads8b, 128,
                                                   DType::kBF16, kH200Rates);
      const std::string what = absl::StrCat(streams, " x ", context);
      EXPECT_LE(costs.decode.longest_over_mean, 2) << what;
      EXPECT_LE(costs.merge.longest_over_mean, 2) << what;
      EXPECT_EQ(costs.prefill.launches, 0);
    }
  }
}

// Merges that are shared out one by one, each beginning a block further: what MergeRowAt()
// replaced.
TEST(Roofline, ABlockOfMergesThatAreSharedOutOneByOneHasTwelveTimesTheMean) {
  const std::vector<int32_t> table(8192 / 16);
  AttentionPlan plan;
  PlanAttention(Streams(32, 8192, table), kHeads8b, {.decode_blocks = 396}, plan);
  ASSERT_EQ(plan.merges.size(), 32U);
  std::vector<int> rows_of_block(396);
  for (size_t tile = 0; tile < plan.merges.size(); ++tile) {
    const int rows = plan.merges[tile].num_packed * kHeads8b.num_kv_heads;
    for (int i = 0; i < rows; ++i) ++rows_of_block[(i + tile) % rows_of_block.size()];
  }
  const int rows = NumMergeRows(plan.merges.data(), 32, kHeads8b.num_kv_heads);
  const double mean = rows / static_cast<double>(rows_of_block.size());
  EXPECT_GT(*std::max_element(rows_of_block.begin(), rows_of_block.end()) / mean, 12);
  const AttentionCosts costs =
      CostOfAttention(Streams(32, 8192, table), kHeads8b, 128, DType::kBF16, kH200Rates);
  EXPECT_LT(costs.merge.longest_over_mean, 1.2);
}

// Bytes of shared memory in the time in which what limits a unit lets it through.
TEST(Roofline, SharedMemoryLimitsNoProduct) {
  for (const GpuRates& rates : kGpus) {
    for (const ProductShape& shape : ProductsOf(kLlama8b)) {
      for (const int64_t rows : {1, 16, 17, 32, 33, 64, 65, 128, 256, 2048}) {
        for (const ImageFormat format : {kBF16, ImageFormat::kFp8Pairs}) {
          const KernelCost cost = CostOfProduct(shape, rows, format, GemmPath::kPipelined, rates);
          EXPECT_NE(cost.bound, Bound::kShared) << shape.name << " T " << rows;
        }
      }
    }
  }
}

// A large tile needs 160 bytes a clock of the 128 that there are while its multiplies run without a
// pause, so that it can reach four fifths of the tensor cores' rate. Anything worse is a step back.
TEST(Roofline, ALargeTileMayReachFourFifthsOfTheTensorCores) {
  for (const ProductShape& shape : ProductsOf(kLlama8b)) {
    const KernelCost cost = CostOfProduct(shape, 2048, kBF16, GemmPath::kPipelined, kH200Rates);
    EXPECT_GE(kH200Rates.shared_bytes_per_clock / cost.shared_bytes_per_tensor_clock(), 0.8)
        << shape.name;
  }
}

// 128 outputs by 256 tokens would need 128 bytes a clock, and more registers and shared memory than
// there are: the tree over runs of K keeps one set of sums for each of its levels.
TEST(Roofline, ATileTwiceAsLargeHasNoRoomForTheTreeOfItsRuns) {
  constexpr int64_t kOutputs = 128, kTokens = 256, kThreads = 256;
  constexpr double kWeights = kOutputs * kUnitInputs * 2, kTokenBytes = kTokens * kUnitInputs * 2;
  constexpr double kClocks = 2.0 * kOutputs * kTokens * kUnitInputs / 4096;
  EXPECT_EQ((2 * kWeights + 3 * kTokenBytes) / kClocks, 128);
  constexpr int64_t kSumsOfThread = kOutputs * kTokens / kThreads;
  EXPECT_GT(2 * kSumsOfThread, kMultiplyingRegisters);  // sums, and one level that waits
  const int64_t levels = Levels(RunsOf(4096, 1).num_runs);
  const int64_t waiting = levels * kOutputs * kTokens * 4;
  const auto stages = static_cast<int64_t>(3 * (kWeights + kTokenBytes));
  EXPECT_GT(waiting + stages, kH200Rates.shared_bytes_of_block);
}

// At most one round of blocks or at least three, or rounds whose last one costs little: blocks of a
// short round share the rates of those that are missing.
bool RoundsCostLittle(const KernelCost& cost, const GpuRates& rates) {
  if (cost.waves() <= 1 || cost.waves() >= 3) return true;
  // Launches, and what a block does before and after its units.
  const double beside = cost.launches * rates.launch_seconds + 3 * rates.memory_latency_seconds;
  return cost.seconds - beside <= 1.25 * LeastSeconds(cost, rates);
}

TEST(Roofline, RoundsOfBlocksAreFullOrCostLittle) {
  for (const GpuRates& rates : kGpus) {
    for (const ProductShape& shape : ProductsOf(kLlama8b)) {
      for (const int64_t rows : {1, 16, 17, 32, 33, 48, 64, 65, 128, 256, 2048}) {
        const KernelCost cost = CostOfPlan(shape, rows, kBF16, PlanOf(shape, rows), rates);
        EXPECT_TRUE(RoundsCostLittle(cost, rates))
            << shape.name << " T " << rows << ": " << cost.waves() << " rounds, "
            << cost.seconds * 1e6 << " us";
      }
    }
  }
}

// Decode of 33 to 64 streams, where most servers are.
TEST(Roofline, SixtyFourRowsOfLargeMatricesWaitForMemory) {
  for (const ProductShape& shape : ProductsOf(kLlama8b)) {
    if (shape.outputs * shape.inputs < int64_t{50} << 20) continue;
    // Tiles of 64 tokens, which these rows had before.
    const KernelCost before = CostOfPlan(shape, 64, kBF16, PlanOf(shape, 64, 65), kH200Rates);
    EXPECT_EQ(before.bound, Bound::kL2) << shape.name;
    EXPECT_GE(before.seconds, 1.4 * before.memory_bytes / kH200Rates.memory_bytes_per_second);
    for (const int64_t rows : {33, 48, 64}) {
      const KernelCost cost = CostOfPlan(shape, rows, kBF16, PlanOf(shape, rows), kH200Rates);
      const double memory = cost.memory_bytes / kH200Rates.memory_bytes_per_second;
      EXPECT_LE(cost.seconds, 1.45 * memory) << shape.name << " T " << rows;
    }
    const KernelCost now = CostOfPlan(shape, 64, kBF16, PlanOf(shape, 64), kH200Rates);
    EXPECT_LE(now.seconds, 0.9 * before.seconds) << shape.name;
  }
}

// Of rows that either tile has room for, the one that is taken is about as fast as the other.
TEST(Roofline, NoPlanIsMuchSlowerThanTheOtherTile) {
  for (const ImageFormat format :
       {kBF16, ImageFormat::kFp8, ImageFormat::kFp8Pairs, ImageFormat::kInt8, ImageFormat::kInt4}) {
    for (const GpuRates& rates : kGpus) {
      for (const ProductShape& shape : ProductsOf(kLlama8b)) {
        for (const int64_t rows : {17, 32, 33, 48, 64}) {
          const auto seconds = [&](int64_t least_rows) {
            const GemmPlan plan =
                PlanGemm(rows, NumTiles(shape.outputs, shape.gated), RunsOf(shape, format), format,
                         {132, rates.shared_bytes_of_block, GemmPath::kPipelined, least_rows});
            return CostOfPlan(shape, rows, format, plan, rates).seconds;
          };
          EXPECT_LE(seconds(0), 1.1 * std::min(seconds(17), seconds(65)) + 2e-6)
              << shape.name << " T " << rows << ", format " << static_cast<int>(format);
        }
      }
    }
  }
}

// Figures by hand: all weights once, 16 KB of weights and 8 KB of tokens a unit of a large tile.
TEST(Roofline, CountsBytesBlocksAndClocks) {
  const ProductShape gate_up = ProductsOf(kLlama8b)[2];
  const KernelCost cost = CostOfProduct(gate_up, 2048, kBF16, GemmPath::kPipelined, kH200Rates);
  EXPECT_EQ(cost.memory_bytes, 28672.0 * 4096 * 2);
  EXPECT_EQ(cost.blocks, 224 * 16);
  EXPECT_EQ(cost.blocks_at_a_time, 132);
  const double units = 224.0 * 16 * 64;
  EXPECT_EQ(cost.l2_bytes, units * 24 * 1024);
  EXPECT_EQ(cost.shared_bytes, units * 80 * 1024);
  EXPECT_EQ(cost.tensor_clocks, units * 512);
  EXPECT_EQ(cost.launches, 2);
  EXPECT_GT(cost.seconds, LeastSeconds(cost, kH200Rates));
  EXPECT_LT(cost.seconds, 1.2 * LeastSeconds(cost, kH200Rates));
}

TEST(Roofline, ATokenOf8bTakesALittleMoreThanItsWeights) {
  const std::vector<int32_t> table(1024 / 16);
  const StepCost step = CostOfStep(kLlama8b, Streams(1, 1024, table), kBF16, DType::kBF16,
                                   GemmPath::kPipelined, kH200Rates);
  EXPECT_EQ(step.launches(), 32 * 9 + 2);
  EXPECT_GT(step.seconds(), 3.5e-3);
  EXPECT_LT(step.seconds(), 4.8e-3);
}

}  // namespace
}  // namespace sluice::cuda
