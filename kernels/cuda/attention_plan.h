// How the attention of a step is shared out among blocks of threads. None of it changes bits: a
// row's result over one split (kernels/attention_splits.h) depends on that split
// alone, and splits are merged in ascending order wherever they were computed. Plain values.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "kernels/attention_splits.h"
#include "kernels/backend.h"

namespace sluice::cuda {

// Positions whose keys and values are in shared memory at a time; divides a split.
inline constexpr int kKvTile = 64;
// Positions of a split. A block of threads goes through them one tile after the other, which a lone
// sequence waits for in every layer: at a context of 1,024, four tiles where 512 positions take eight
// and most multiprocessors have none. Prefill merges as often as there are splits.
inline constexpr int64_t kGpuAttentionSplit = 256;
static_assert(kGpuAttentionSplit % kKvTile == 0);

// A segment's rows times the query heads that share a KV head are "packed rows": number
// row * group + head within the group, so that few rows with many heads fill a tile like many rows
// with few.
struct AttentionTile {
  int32_t first_row = 0;       // of the segment, in the step
  int32_t first_position = 0;  // of the segment
  int32_t table_begin = 0;     // of the segment, in the step's block tables
  int32_t first_packed = 0;    // packed rows [first_packed, first_packed + num_packed) of it
  int32_t num_packed = 0;
  int32_t split_begin = 0;  // splits [split_begin, split_end) of the sequence
  int32_t split_end = 0;
  // -1: the tile has all splits that its rows see anything of, and writes their results. Otherwise
  // packed row r leaves the i-th of its splits, for KV head h, at partial
  // (partial_begin + i * num_packed + r) * num_kv_heads + h.
  int32_t partial_begin = -1;
};

// Packed rows whose splits are merged: num_splits of them, `num_packed` partials apart.
struct MergeTile {
  int64_t first_row = 0;
  int32_t first_packed = 0;
  int32_t num_packed = 0;
  int32_t partial_begin = 0;
  int32_t num_splits = 0;
  int32_t packed_before = 0;  // packed rows of all merges before this one
};

// Number of rows that `num_tiles` merges have: packed rows times KV heads.
constexpr int NumMergeRows(const MergeTile* tiles, int num_tiles, int num_kv_heads) {
  if (num_tiles == 0) return 0;
  const MergeTile& last = tiles[num_tiles - 1];
  return (last.packed_before + last.num_packed) * num_kv_heads;
}

// One row of one KV head, of the merge `tile`.
struct MergeRow {
  int tile = 0;
  int packed = 0;  // within the tile
  int kv_head = 0;
};

// Row `index` of NumMergeRows(). Block b of n merges rows b, b + n, b + 2n and so on, so that the
// blocks' shares differ by at most one row.
constexpr MergeRow MergeRowAt(const MergeTile* tiles, int num_tiles, int num_kv_heads, int index) {
  const int packed = index / num_kv_heads;
  int tile = 0;  // the last one that begins at or before `packed`
  for (int end = num_tiles; end - tile > 1;) {
    const int middle = tile + (end - tile) / 2;
    if (tiles[middle].packed_before <= packed) {
      tile = middle;
    } else {
      end = middle;
    }
  }
  return {tile, packed - tiles[tile].packed_before, index % num_kv_heads};
}

// All that attention differs in between layers, besides the layer.
struct AttentionShape {
  int group = 1;  // query heads per KV head
  int64_t window = 0;
  int num_kv_heads = 1;
  int tile_rows = 64;         // packed rows of a block of threads, at most
  int decode_tile_rows = 16;  // the same for those that are computed as decode

  friend bool operator==(const AttentionShape&, const AttentionShape&) = default;
};

// A step's tiles: long ones first, so that none that begins late ends last.
struct AttentionPlan {
  std::vector<AttentionTile> decode;  // of at most decode_tile_rows packed rows
  std::vector<AttentionTile> prefill;
  std::vector<MergeTile> merges;
  int64_t num_partials = 0;  // times KV heads

  void Clear();
};

// What the splits of tiles are shared out for.
struct AttentionRoom {
  // Blocks of threads that the device runs at a time, of each kind of tile.
  int64_t decode_blocks = 1;
  int64_t prefill_blocks = 1;
  // That prefill may leave, times KV heads: each of its many rows leaves one for every split.
  int64_t most_prefill_partials = int64_t{1} << 40;

  friend bool operator==(const AttentionRoom&, const AttentionRoom&) = default;
};

// Splits of a tile are worked on separately where the tiles of its kind leave too much of the device
// idle; a few of them one after another where that makes enough tiles for all blocks to end together.
void PlanAttention(absl::Span<const AttentionSegment> segments, const AttentionShape& shape,
                   const AttentionRoom& room, AttentionPlan& plan);

}  // namespace sluice::cuda
