#include "kernels/cuda/attention_plan.h"

#include <algorithm>

namespace sluice::cuda {
namespace {

// Tiles for each block of threads that leave little idle at the end.
constexpr int64_t kTilesForBalance = 16;

// The tiles of a segment, each with all of its splits.
void CutSegment(const AttentionSegment& segment, int32_t table_begin, const AttentionShape& shape,
                AttentionPlan& plan) {
  const int64_t packed = segment.num_rows * shape.group;
  const bool is_decode = packed <= shape.decode_tile_rows;
  std::vector<AttentionTile>& tiles = is_decode ? plan.decode : plan.prefill;
  const int64_t step = is_decode ? shape.decode_tile_rows : shape.tile_rows;
  for (int64_t first = 0; first < packed; first += step) {
    const int64_t last = std::min(packed, first + step) - 1;
    const SplitRange splits =
        SplitsOf(segment.first_position + first / shape.group,
                 segment.first_position + last / shape.group, shape.window, kGpuAttentionSplit);
    tiles.push_back({.first_row = static_cast<int32_t>(segment.first_row),
                     .first_position = static_cast<int32_t>(segment.first_position),
                     .table_begin = table_begin,
                     .first_packed = static_cast<int32_t>(first),
                     .num_packed = static_cast<int32_t>(last + 1 - first),
                     .split_begin = static_cast<int32_t>(splits.begin),
                     .split_end = static_cast<int32_t>(splits.end)});
  }
}

int64_t BlocksOf(const std::vector<AttentionTile>& tiles, const AttentionShape& shape) {
  return static_cast<int64_t>(tiles.size()) * shape.num_kv_heads;
}

// Of a tile, so that `blocks` of them become enough for `target` blocks at a time.
int64_t PiecesFor(int64_t target, int64_t blocks) {
  return blocks == 0 ? 1 : (kTilesForBalance * target + blocks - 1) / blocks;
}

// Whether more than a tenth of `room` blocks' time is nobody's, where they take `blocks` tiles of one
// length by turns: 400 tiles keep 396 blocks for as long as 792 would.
bool LeavesIdle(int64_t blocks, int64_t room) {
  const int64_t rounds = (blocks + room - 1) / room;
  return blocks * 10 < rounds * room * 9;
}

// What the tiles would leave, cut.
int64_t PartialsOf(const std::vector<AttentionTile>& tiles) {
  int64_t partials = 0;
  for (const AttentionTile& tile : tiles) {
    const int64_t num_splits = tile.split_end - tile.split_begin;
    if (num_splits > 1) partials += num_splits * tile.num_packed;
  }
  return partials;
}

// Cuts tiles of several splits into `pieces` each, or into tiles of one split.
void CutSplits(int64_t pieces, std::vector<AttentionTile>& tiles, AttentionPlan& plan) {
  std::vector<AttentionTile> cut;
  for (const AttentionTile& tile : tiles) {
    const int32_t num_splits = tile.split_end - tile.split_begin;
    if (num_splits == 1) {
      cut.push_back(tile);
      continue;
    }
    const auto partial_begin = static_cast<int32_t>(plan.num_partials);
    const int32_t packed_before =
        plan.merges.empty() ? 0 : plan.merges.back().packed_before + plan.merges.back().num_packed;
    plan.merges.push_back({.first_row = tile.first_row,
                           .first_packed = tile.first_packed,
                           .num_packed = tile.num_packed,
                           .partial_begin = partial_begin,
                           .num_splits = num_splits,
                           .packed_before = packed_before});
    plan.num_partials += int64_t{num_splits} * tile.num_packed;
    const auto step = static_cast<int32_t>((num_splits + pieces - 1) / pieces);
    for (int32_t split = tile.split_begin; split < tile.split_end; split += step) {
      AttentionTile piece = tile;
      piece.split_begin = split;
      piece.split_end = std::min(split + step, tile.split_end);
      piece.partial_begin = partial_begin + (split - tile.split_begin) * tile.num_packed;
      cut.push_back(piece);
    }
  }
  tiles = std::move(cut);
}

void SortLongFirst(std::vector<AttentionTile>& tiles) {
  std::stable_sort(tiles.begin(), tiles.end(), [](const AttentionTile& a, const AttentionTile& b) {
    return a.split_end - a.split_begin > b.split_end - b.split_begin;
  });
}

}  // namespace

void AttentionPlan::Clear() {
  decode.clear();
  prefill.clear();
  merges.clear();
  num_partials = 0;
}

void PlanAttention(absl::Span<const AttentionSegment> segments, const AttentionShape& shape,
                   const AttentionRoom& room, AttentionPlan& plan) {
  plan.Clear();
  int32_t table_begin = 0;
  for (const AttentionSegment& segment : segments) {
    CutSegment(segment, table_begin, shape, plan);
    table_begin += static_cast<int32_t>(segment.block_table.size());
  }
  // Decode waits for memory, which takes all blocks to keep busy, to the end.
  const int64_t decode_blocks = BlocksOf(plan.decode, shape);
  if (LeavesIdle(decode_blocks, room.decode_blocks)) {
    CutSplits(PiecesFor(room.decode_blocks, decode_blocks), plan.decode, plan);
  }
  // Prefill multiplies, and pays for each split with partial results of all its rows: it is cut only
  // where that is less than what would stand idle.
  const int64_t prefill_blocks = BlocksOf(plan.prefill, shape);
  if (prefill_blocks * 4 < room.prefill_blocks * 3 &&
      PartialsOf(plan.prefill) * shape.num_kv_heads <= room.most_prefill_partials) {
    CutSplits(PiecesFor(room.prefill_blocks, prefill_blocks), plan.prefill, plan);
  }
  SortLongFirst(plan.decode);
  SortLongFirst(plan.prefill);
}

}  // namespace sluice::cuda
