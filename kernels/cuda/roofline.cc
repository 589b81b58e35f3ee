#include "kernels/cuda/roofline.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "kernels/cuda/attention.h"
#include "kernels/cuda/attention_shape.h"
#include "kernels/cuda/token_image.h"
#include "kernels/kv_format.h"

namespace sluice::cuda {
namespace {

constexpr int64_t kReservedOfBlock = 1 << 10;
constexpr int64_t kThreadsOfMultiprocessor = 2048;
// Registers of a thread that multiplies a tile of 64 tokens by wgmma (tests/gpu/resources.txt).
constexpr int64_t kMiddleBlocksByRegisters = 2;
// Splits of which a merge asks for partials at a time (kernels/attention_merge.cu).
constexpr int kMergedAtATime = 8;
constexpr int kMergeBlocksOfMultiprocessor = 3;

double RateOfBlocks(double of_multiprocessor, const GpuRates& rates) {
  return of_multiprocessor * rates.num_multiprocessors * rates.clocks_per_second;
}

// Takes the slowest of the resources, which work at the same time.
void TakeBound(double seconds, Bound bound, KernelCost& cost) {
  if (seconds <= cost.seconds) return;
  cost.seconds = seconds;
  cost.bound = bound;
}

// What a block of a product moves and multiplies in one unit of K.
struct UnitCost {
  double weights = 0;        // bytes, from memory
  double l2 = 0;             // bytes
  double shared = 0;         // bytes
  double tensor_clocks = 0;  // of the multiprocessor
  double ahead = 1;          // units whose weights are under way
  double latency = 0;        // seconds from their request to their arrival
};

UnitCost CostOfUnit(const GemmPlan& plan, int64_t rows, ImageFormat format, const GpuRates& rates) {
  const GemmTileShape shape = ShapeOf(plan.tile, plan.path, format);
  const bool is_pipelined = plan.path == GemmPath::kPipelined;
  const int64_t tokens = is_pipelined ? shape.tokens() : std::min<int64_t>(rows, shape.tokens());
  const double weights = static_cast<double>(shape.tiles()) * UnitBytes(format);
  const double token_bytes = static_cast<double>(tokens) * kUnitInputs * 2;
  const double tile_bytes = static_cast<double>(shape.tokens()) * kUnitInputs * 2;
  // wgmma reads tokens once for every 64 outputs, mma.sync for every row of warps.
  const int readers =
      plan.path == GemmPath::kPortable ? shape.warps_by_outputs : shape.threads() / 128;
  UnitCost unit;
  unit.weights = weights;
  unit.l2 = weights + token_bytes / plan.cluster();
  // Both are written; weights are then read by the warps that have their outputs.
  const int weight_readers = plan.path == GemmPath::kPortable ? shape.warps_by_tokens : 1;
  unit.shared = weights * (1 + weight_readers) + tile_bytes * (1 + readers);
  unit.tensor_clocks =
      2.0 * shape.outputs() * shape.tokens() * kUnitInputs / rates.operations_per_clock;
  // A stage is multiplied meanwhile; on Hopper the one before may still be, in the pipeline for
  // half of the time.
  const double busy = plan.path == GemmPath::kPortable ? 1 : is_pipelined ? 1.5 : 2;
  unit.ahead = std::max(1.0, shape.stages - busy);
  // All but the first of the blocks that have the same weights find them in the second-level cache.
  const double in_cache = 1 - 1 / static_cast<double>(plan.token_blocks);
  unit.latency = rates.memory_latency_seconds * (1 - in_cache / 2);
  return unit;
}

// Seconds that `blocks` blocks take beside each other for `units` units each.
double SecondsOfWave(double blocks, double units, const UnitCost& unit, const GpuRates& rates,
                     Bound& bound) {
  // Blocks of the busiest multiprocessor.
  const double of_one = std::max(1.0, blocks / rates.num_multiprocessors);
  const double clocks = units / rates.clocks_per_second;
  KernelCost wave;
  TakeBound(blocks * units * unit.weights / rates.memory_bytes_per_second, Bound::kMemory, wave);
  // The cache serves all: what some multiprocessors do not ask for, others get, as far as they can
  // take.
  TakeBound(blocks / rates.num_multiprocessors * clocks * unit.l2 / rates.l2_bytes_per_clock,
            Bound::kL2, wave);
  TakeBound(of_one * clocks * unit.l2 / rates.l2_bytes_per_clock_at_most, Bound::kL2, wave);
  TakeBound(of_one * clocks * unit.shared / rates.shared_bytes_per_clock, Bound::kShared, wave);
  TakeBound(of_one * clocks * unit.tensor_clocks, Bound::kTensor, wave);
  TakeBound(units * unit.latency / unit.ahead, Bound::kLatency, wave);
  bound = wave.bound;
  return wave.seconds;
}

// Work of the block that has most, against the mean, where block b takes tiles b, b + blocks and so
// on, of which each has `work(tile)`.
template <class Tiles, class Work>
double LongestOverMean(const Tiles& tiles, int64_t kv_heads, int64_t blocks, Work work) {
  const int64_t count = static_cast<int64_t>(tiles.size()) * kv_heads;
  if (count == 0) return 1;
  blocks = std::min(blocks, count);
  std::vector<double> of_block(blocks);
  for (int64_t i = 0; i < count; ++i) of_block[i % blocks] += work(tiles[i / kv_heads]);
  const double all = std::accumulate(of_block.begin(), of_block.end(), 0.0);
  const double longest = *std::max_element(of_block.begin(), of_block.end());
  return longest / (all / static_cast<double>(blocks));
}

// Positions whose keys and values a tile reads, in whole splits.
double PositionsOf(const AttentionTile& tile) {
  return static_cast<double>(tile.split_end - tile.split_begin) * kGpuAttentionSplit;
}

int64_t AttentionBlocks(int head_dim, DType dtype, int tile_rows, const GpuRates& rates) {
  const int padded = PaddedHeadDim(head_dim);
  const int64_t bytes = AttentionSharedBytesOf(padded, dtype, tile_rows, 2);
  const int64_t by_memory = rates.shared_bytes / (bytes + kReservedOfBlock);
  return rates.num_multiprocessors *
         std::clamp<int64_t>(by_memory, 1, RegisterBlocks(head_dim, tile_rows));
}

KernelCost CostOfTiles(const char* name, const std::vector<AttentionTile>& tiles,
                       const AttentionShape& shape, int head_dim, DType dtype, int tile_rows,
                       const GpuRates& rates) {
  KernelCost cost{.name = name};
  if (tiles.empty()) return {.name = name, .launches = 0};
  const int64_t at_a_time = AttentionBlocks(head_dim, dtype, tile_rows, rates);
  cost.blocks = static_cast<int64_t>(tiles.size()) * shape.num_kv_heads;
  cost.blocks_at_a_time = at_a_time;
  cost.longest_over_mean = LongestOverMean(tiles, shape.num_kv_heads, at_a_time, PositionsOf);
  double positions = 0;
  for (const AttentionTile& tile : tiles) positions += PositionsOf(tile) * shape.num_kv_heads;
  const double vector_bytes = static_cast<double>(KvVectorBytes(dtype, head_dim));
  const double padded = PaddedHeadDim(head_dim);
  // Queries and weights have two BF16 parts each; products are of 16 rows or more.
  const int parts = dtype == DType::kF32 ? 3 : 2;
  cost.l2_bytes = positions * 2 * vector_bytes;
  // Tiles of a segment's rows share its keys by way of the second-level cache.
  cost.memory_bytes = tile_rows == shape.decode_tile_rows ? cost.l2_bytes : 0;
  cost.shared_bytes = positions * 2 * padded * 2 * 2;
  // mma.sync reaches some six tenths of wgmma's rate.
  cost.tensor_clocks =
      positions * 4 * tile_rows * padded * parts / (0.6 * rates.operations_per_clock);
  const double uneven = cost.longest_over_mean;
  TakeBound(cost.memory_bytes / rates.memory_bytes_per_second, Bound::kMemory, cost);
  TakeBound(uneven * cost.l2_bytes / RateOfBlocks(rates.l2_bytes_per_clock, rates), Bound::kL2,
            cost);
  TakeBound(uneven * cost.shared_bytes / RateOfBlocks(rates.shared_bytes_per_clock, rates),
            Bound::kShared, cost);
  TakeBound(uneven * cost.tensor_clocks / RateOfBlocks(1, rates), Bound::kTensor, cost);
  // A block has one tile of keys and values under way while it multiplies another.
  const double of_block =
      uneven * positions / static_cast<double>(std::min(at_a_time, cost.blocks));
  TakeBound((of_block / kKvTile + 1) * rates.memory_latency_seconds, Bound::kLatency, cost);
  cost.seconds += rates.launch_seconds;
  return cost;
}

KernelCost CostOfMerges(const AttentionPlan& plan, const AttentionShape& shape, int head_dim,
                        const GpuRates& rates) {
  KernelCost cost{.name = "merge"};
  if (plan.merges.empty()) return {.name = "merge", .launches = 0};
  cost.blocks_at_a_time = int64_t{rates.num_multiprocessors} * kMergeBlocksOfMultiprocessor;
  const int rows =
      NumMergeRows(plan.merges.data(), static_cast<int>(plan.merges.size()), shape.num_kv_heads);
  cost.blocks = std::min<int64_t>(rows, cost.blocks_at_a_time);
  std::vector<double> of_block(cost.blocks);
  double partials = 0;
  for (int i = 0; i < rows; ++i) {
    const MergeRow row =
        MergeRowAt(plan.merges.data(), static_cast<int>(plan.merges.size()), shape.num_kv_heads, i);
    const int splits = plan.merges[row.tile].num_splits;
    of_block[i % cost.blocks] += 1 + (splits - 1 + kMergedAtATime - 1) / kMergedAtATime;
    partials += splits;
  }
  const double reads = *std::max_element(of_block.begin(), of_block.end());
  const double all = std::accumulate(of_block.begin(), of_block.end(), 0.0);
  cost.longest_over_mean = reads * static_cast<double>(cost.blocks) / all;
  cost.l2_bytes = partials * (head_dim + 2) * 4;
  TakeBound(cost.l2_bytes / RateOfBlocks(rates.l2_bytes_per_clock, rates), Bound::kL2, cost);
  // Reads of the second-level cache take half as long as memory's, one after another.
  TakeBound(reads * rates.memory_latency_seconds / 2, Bound::kLatency, cost);
  cost.seconds += rates.launch_seconds;
  return cost;
}

}  // namespace

const char* Name(Bound bound) {
  switch (bound) {
    case Bound::kMemory:
      return "memory";
    case Bound::kL2:
      return "L2";
    case Bound::kShared:
      return "shared memory";
    case Bound::kTensor:
      return "tensor cores";
    case Bound::kLatency:
      return "latency";
  }
  return "";
}

int64_t BlocksOfMultiprocessor(const GemmPlan& plan, ImageFormat format, const RunShape& runs,
                               const GpuRates& rates) {
  if (plan.path == GemmPath::kPipelined) return 1;
  const int64_t bytes = GemmSharedBytes(plan.tile, format, runs.num_runs, plan.path);
  const int64_t by_memory = rates.shared_bytes / (bytes + kReservedOfBlock);
  const int64_t by_threads = kThreadsOfMultiprocessor / ShapeOf(plan.tile).threads();
  int64_t blocks = std::min(by_memory, by_threads);
  if (plan.tile == GemmTile::kMiddle) blocks = std::min(blocks, kMiddleBlocksByRegisters);
  if (plan.tile == GemmTile::kLarge) blocks = std::min<int64_t>(blocks, 1);
  return std::max<int64_t>(blocks, 1);
}

RunShape RunsOf(const ProductShape& shape, ImageFormat format) {
  const RunShape runs = RunsOf(shape.inputs, shape.slices);
  return format == ImageFormat::kFp8Pairs ? InPairs(runs) : runs;
}

KernelCost CostOfPlan(const ProductShape& shape, int64_t rows, ImageFormat format,
                      const GemmPlan& plan, const GpuRates& rates) {
  const RunShape runs = RunsOf(shape, format);
  const UnitCost unit = CostOfUnit(plan, rows, format, rates);
  const double units = static_cast<double>(runs.num_runs / plan.splits * runs.units());
  const int64_t working = FilledOutputBlocks(plan.tile, NumTiles(shape.outputs, shape.gated)) *
                          plan.token_blocks * plan.splits;
  KernelCost cost{.name = shape.name, .blocks = working};
  cost.blocks_at_a_time =
      BlocksOfMultiprocessor(plan, format, runs, rates) * rates.num_multiprocessors;
  const double all_units = static_cast<double>(working) * units;
  cost.memory_bytes = static_cast<double>(ImageBytes(format, shape.outputs, shape.gated, runs));
  cost.l2_bytes = all_units * unit.l2;
  cost.shared_bytes = all_units * unit.shared;
  cost.tensor_clocks = all_units * unit.tensor_clocks;
  // Weights come from memory once, whatever the number of blocks of tokens.
  UnitCost of_wave = unit;
  of_wave.weights /= static_cast<double>(plan.token_blocks);
  double left = static_cast<double>(working), longest = 0;
  while (left > 0) {
    const double some = std::min(left, static_cast<double>(cost.blocks_at_a_time));
    Bound bound;
    const double seconds = SecondsOfWave(some, units, of_wave, rates, bound);
    if (seconds > longest) {
      longest = seconds;
      cost.bound = bound;
    }
    cost.seconds += seconds;
    left -= some;
  }
  // The first stages come while nothing is multiplied, and the last results leave.
  cost.seconds += 2 * rates.memory_latency_seconds;
  if (plan.splits > 1) {
    // Sums are left and read again in the second-level cache, by the last of the splits.
    const double bytes = 2.0 * static_cast<double>(plan.partial_floats()) * 4;
    cost.l2_bytes += bytes;
    cost.seconds +=
        bytes / RateOfBlocks(rates.l2_bytes_per_clock, rates) + rates.memory_latency_seconds;
  }
  cost.seconds += rates.launch_seconds;
  if (plan.path != GemmPath::kPipelined) return cost;
  const double image =
      static_cast<double>(TokenImageBytes(rows, runs.num_runs * runs.padded_depth()) +
                          rows * runs.num_runs * runs.depth * 2);
  cost.launches = 2;
  cost.seconds += image / RateOfBlocks(rates.l2_bytes_per_clock, rates) + rates.launch_seconds;
  return cost;
}

KernelCost CostOfProduct(const ProductShape& shape, int64_t rows, ImageFormat format, GemmPath path,
                         const GpuRates& rates) {
  const GemmPlan plan =
      PlanGemm(rows, NumTiles(shape.outputs, shape.gated), RunsOf(shape, format), format,
               {.num_multiprocessors = rates.num_multiprocessors,
                .shared_bytes = rates.shared_bytes_of_block,
                .path = path});
  return CostOfPlan(shape, rows, format, plan, rates);
}

AttentionCosts CostOfAttention(absl::Span<const AttentionSegment> segments,
                               const AttentionShape& shape, int head_dim, DType dtype,
                               const GpuRates& rates) {
  AttentionPlan plan;
  PlanAttention(segments, shape,
                {.decode_blocks = AttentionBlocks(head_dim, dtype, shape.decode_tile_rows, rates),
                 .prefill_blocks = AttentionBlocks(head_dim, dtype, shape.tile_rows, rates)},
                plan);
  return {.decode = CostOfTiles("attention", plan.decode, shape, head_dim, dtype,
                                shape.decode_tile_rows, rates),
          .prefill = CostOfTiles("attention of prompts", plan.prefill, shape, head_dim, dtype,
                                 shape.tile_rows, rates),
          .merge = CostOfMerges(plan, shape, head_dim, rates)};
}

KernelCost CostOfBytes(std::string name, double bytes, const GpuRates& rates) {
  KernelCost cost{.name = std::move(name), .memory_bytes = bytes, .l2_bytes = bytes};
  TakeBound(bytes / rates.memory_bytes_per_second, Bound::kMemory, cost);
  TakeBound(rates.memory_latency_seconds, Bound::kLatency, cost);
  cost.seconds += rates.launch_seconds;
  return cost;
}

std::vector<ProductShape> ProductsOf(const DecoderShape& decoder) {
  const int64_t queries = int64_t{decoder.heads} * decoder.head_dim;
  const int64_t kv = int64_t{decoder.kv_heads} * decoder.head_dim;
  return {{"qkv", queries + 2 * kv, decoder.hidden, 1, false},
          {"o", decoder.hidden, queries, 8, false},
          {"gate_up", 2 * decoder.mlp, decoder.hidden, 1, true},
          {"down", decoder.hidden, decoder.mlp, 8, false},
          {"head", decoder.vocabulary, decoder.hidden, 1, false}};
}

int StepCost::launches() const {
  const auto of = [](const std::vector<KernelCost>& kernels) {
    return std::accumulate(kernels.begin(), kernels.end(), 0,
                           [](int sum, const KernelCost& cost) { return sum + cost.launches; });
  };
  return layers * of(of_layer) + of(of_head);
}

double StepCost::seconds() const {
  const auto of = [](const std::vector<KernelCost>& kernels) {
    return std::accumulate(kernels.begin(), kernels.end(), 0.0,
                           [](double sum, const KernelCost& cost) { return sum + cost.seconds; });
  };
  return layers * of(of_layer) + of(of_head);
}

StepCost CostOfStep(const DecoderShape& decoder, absl::Span<const AttentionSegment> segments,
                    ImageFormat format, DType kv_dtype, GemmPath path, const GpuRates& rates) {
  int64_t rows = 0;
  for (const AttentionSegment& segment : segments) rows += segment.num_rows;
  const std::vector<ProductShape> products = ProductsOf(decoder);
  const auto product = [&](int which) {
    return CostOfProduct(products[which], rows, format, path, rates);
  };
  const AttentionShape shape{.group = decoder.heads / decoder.kv_heads,
                             .num_kv_heads = decoder.kv_heads};
  AttentionCosts attention = CostOfAttention(segments, shape, decoder.head_dim, kv_dtype, rates);
  const double row_bytes = 6.0 * static_cast<double>(rows * decoder.hidden);
  const double head_bytes =
      8.0 * static_cast<double>(rows * decoder.head_dim) * (decoder.heads + decoder.kv_heads);
  StepCost step{.layers = decoder.layers};
  step.of_layer = {CostOfBytes("norm", row_bytes, rates),
                   product(0),
                   CostOfBytes("store heads", head_bytes, rates),
                   std::move(attention.decode),
                   std::move(attention.prefill),
                   std::move(attention.merge),
                   product(1),
                   CostOfBytes("norm", row_bytes, rates),
                   product(2),
                   product(3)};
  step.of_head = {CostOfBytes("norm", row_bytes, rates), product(4)};
  return step;
}

}  // namespace sluice::cuda
