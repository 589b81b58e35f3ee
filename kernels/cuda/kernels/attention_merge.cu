#include "simt.h"

// After simt.h.
#include "kernels/cuda/attention_plan.h"
#include "kernels/cuda/kernels/attention_merge.h"
#include "kernels/cuda/kernels/launchers.h"

namespace sluice::cuda::SIMT_NAMESPACE {
namespace {

constexpr int kThreads = 128;

// Splits whose partials are asked for at a time.
constexpr int kAtATime = 8;

// What a thread has of a partial.
struct Partial {
  SplitState state;
  float sum;
};
SIMT_DEVICE Partial LoadPartial(const float* partial, int head_dim, int col) {
  return {{partial[head_dim], partial[head_dim + 1]}, partial[col]};
}

// Merges the splits of one row of `tile`, in ascending order of splits.
SIMT_DEVICE void MergeSplitsOf(const MergeSplitsTask& task, const MergeTile& tile,
                               const MergeRow& which) {
  const int64_t stride =
      int64_t{tile.num_packed} * task.num_kv_heads * PartialFloats(task.head_dim);
  const float* const first =
      task.partials +
      ((int64_t{tile.partial_begin} + which.packed) * task.num_kv_heads + which.kv_head) *
          PartialFloats(task.head_dim);
  const auto in_segment = static_cast<unsigned>(tile.first_packed + which.packed);
  const auto group = static_cast<unsigned>(task.group);
  const int64_t row = tile.first_row + in_segment / group;
  const int64_t head = which.kv_head * group + in_segment % group;
  for (int col = Thread(); col < task.head_dim; col += kThreads) {
    Partial merged = LoadPartial(first, task.head_dim, col);
    for (int begin = 1; begin < tile.num_splits; begin += kAtATime) {
      Partial next[kAtATime];
      SIMT_UNROLL
      for (int i = 0; i < kAtATime; ++i) {
        const int split = Smaller()(begin + i, tile.num_splits - 1);
        next[i] = LoadPartial(first + split * stride, task.head_dim, col);
      }
      SIMT_UNROLL
      for (int i = 0; i < kAtATime; ++i) {
        if (begin + i >= tile.num_splits) continue;
        const MergeShares shares = Merge(merged.state, next[i].state);
        merged = {shares.state, MergedSumOf(merged.sum, next[i].sum, shares)};
      }
    }
    StoreElement(task.out, row, head * task.head_dim + col, merged.sum / merged.state.total);
  }
}

SIMT_KERNEL(kThreads, 4) MergeTiles(SIMT_TASK MergeSplitsTask task) {
  LetKernelsBehindBegin();
  const int num_tiles = *task.num_tiles, blocks = static_cast<int>(NumBlocks());
  const int num_rows = NumMergeRows(task.tiles, num_tiles, task.num_kv_heads);
  int index = static_cast<int>(Block());
  MergeRow row;
  // No kernel writes the step's tables: the first row is found while kernels before still run.
  if (index < num_rows) row = MergeRowAt(task.tiles, num_tiles, task.num_kv_heads, index);
  WaitForKernelsBefore();
  while (index < num_rows) {
    MergeSplitsOf(task, task.tiles[row.tile], row);
    index += blocks;
    if (index < num_rows) row = MergeRowAt(task.tiles, num_tiles, task.num_kv_heads, index);
  }
}

}  // namespace

void MergeSplits(Stream stream, const MergeSplitsTask& task) {
  Launch<MergeTiles>(stream, {.blocks = task.num_blocks, .threads = kThreads}, task);
}

}  // namespace sluice::cuda::SIMT_NAMESPACE
