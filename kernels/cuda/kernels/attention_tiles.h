// Attention of one block of threads: its warps go through the keys and values of a KV head
// together, 64 positions at a time, by online softmax (Milakov and Gimelshein 2018; Dao et al.
// 2023), each with 16 packed rows, or all with the same 16. After simt.h.
#pragma once

#include "kernels/cuda/kernels/attention_values.h"

namespace sluice::cuda::SIMT_NAMESPACE {

template <class Shape>
class AttentionBlock {
 public:
  SIMT_DEVICE AttentionBlock(const AttentionTask& task, char* shared)
      : task_(task),
        lane_(Thread() % kWarpSize),
        row_warp_(Thread() / kWarpSize / Shape::kSharing),
        member_(Thread() / kWarpSize % Shape::kSharing),
        exchange_(shared + PlaceBytes(), member_, lane_),
        merged_(shared + kMergedBegin),
        queries_(shared + kQueriesBegin, row_warp_, member_, lane_),
        loader_(task, shared, shared + kStagesBegin) {}

  // Finds where the first keys and values of `tile` for `kv_head` lie: from the step's tables alone, which
  // no kernel writes.
  SIMT_DEVICE void Locate(const AttentionTile& tile, int kv_head) {
    const PositionRange seen = SeenByTile(tile, task_.group, task_.window);
    begin_ = Larger()(tile.split_begin * kTilesPerSplit, seen.begin / kKvTile);
    end_ = Smaller()(tile.split_end * kTilesPerSplit, (seen.end + kKvTile - 1) / kKvTile);
    loader_.Begin(tile, kv_head, seen);
    loader_.Locate(begin_);
    loader_.Locate(begin_ + 1);
  }

  // The rows of `tile` over the keys and values of `kv_head`, which were located.
  SIMT_DEVICE void Run(const AttentionTile& tile, int kv_head) {
    const int begin = begin_, end = end_;
    loader_.BeginLoads();
    Barrier();  // for what was located
    // Under way while the queries are loaded.
    if (task_.stages == 2) loader_.Load(begin, 0);
    CommitCopies();
    LoadRows(tile, kv_head);
    merged_.Clear();
    BeginSplit();
    int stage = 0;
    SIMT_ROLLED
    for (int kv_tile = begin; kv_tile < end; ++kv_tile) {
      Barrier();  // before what the last round read is written over
      Bring(kv_tile, end, stage);
      Barrier();
      if constexpr (Shape::kType == DType::kF8E4M3) {
        loader_.Unpack(stage);
        Barrier();
      }
      Attend(kv_tile, stage);
      loader_.Locate(kv_tile + 2);
      if (task_.stages == 2) stage = 1 - stage;
      if ((kv_tile + 1) % kTilesPerSplit == 0 || kv_tile + 1 == end) {
        EndSplit(tile, kv_head, kv_tile / kTilesPerSplit - tile.split_begin, kv_tile + 1 == end);
      }
    }
    WaitForCopies<0>();
    Barrier();  // before another tile's are written over
  }

 private:
  static constexpr int kTilesPerSplit = static_cast<int>(kGpuAttentionSplit) / kKvTile;
  static constexpr int kTileRows = Shape::kRowWarps * kRowsOfTile;
  static constexpr int64_t kMergedBegin = PlaceBytes() + ExchangeBytes(kTileRows);
  static constexpr int64_t kQueriesBegin = kMergedBegin + MergedBytes(Shape::kHeadDim, kTileRows);
  static constexpr int64_t kStagesBegin = kQueriesBegin + QueryBytes(Shape::kHeadDim, kTileRows);

  // Of the thread's packed rows, which are those of lanes' quarters g and g + 8.
  SIMT_DEVICE int Packed(int half) const { return row_warp_ * kRowsOfTile + lane_ / 4 + half * 8; }

  SIMT_DEVICE void LoadRows(const AttentionTile& tile, int kv_head) {
    const float* rows[2];
    SIMT_UNROLL
    for (int half = 0; half < 2; ++half) {
      seen_[half] = SeenBy(tile, Packed(half), task_.group, task_.window);
      const RowAndHead at = PlaceOf(tile, Packed(half), task_.group, kv_head);
      rows[half] = Packed(half) < tile.num_packed
                       ? RowOf(task_.q, at.row) + int64_t{at.head} * task_.pool.head_dim
                       : nullptr;
    }
    queries_.Load(rows, task_.pool.head_dim);
  }

  // Has the tile's keys and values at hand at `stage`, and the next one's under way where there is
  // room for two.
  SIMT_DEVICE void Bring(int kv_tile, int end, int stage) {
    if (task_.stages == 1) {
      loader_.Load(kv_tile, 0);
      CommitCopies();
      WaitForCopies<0>();
    } else {
      if (kv_tile + 1 < end) loader_.Load(kv_tile + 1, 1 - stage);
      CommitCopies();
      WaitForCopies<1>();
    }
  }

  SIMT_DEVICE void Attend(int kv_tile, int stage) {
    const int first_column = member_ * Shape::kColumns;
    Scores<Shape> scores;
    Score<Shape>(queries_, loader_, stage, first_column, lane_, scores);
    float largest[2], shares[2];
    MaskAndScale<Shape>(seen_, kv_tile * kKvTile + first_column * 8, task_.scale, task_.softcap,
                        lane_, scores, largest);
    if constexpr (Shape::kSharing > 1) exchange_.JoinLargest(largest);
    SIMT_UNROLL
    for (int half = 0; half < 2; ++half) {
      largest[half] = Larger()(largest_[half], largest[half]);
      shares[half] = ShareOf(largest_[half], largest[half]);
      largest_[half] = largest[half];
    }
    Weigh<Shape>(largest, scores);
    sums_.Shrink(shares);
    AddValues(stage, scores);
    if (loader_.is_careful()) AddNonfinite(kv_tile);
  }

  SIMT_DEVICE int FirstHeadColumn() const { return member_ * Shape::kHeadColumns; }

  SIMT_DEVICE void AddValues(int stage, const Scores<Shape>& weights) {
    const int first = ValueSums<Shape>::FirstPiece(loader_, stage, FirstHeadColumn(), lane_);
    if constexpr (Shape::kSharing > 1) {
      exchange_.PutWeights(PartsOfWeights<Shape>(weights, 0));
    }
    SIMT_UNROLL
    for (int step = 0; step < kKvTile / 16; ++step) {
      if constexpr (Shape::kSharing > 1) {
        sums_.Add(loader_, first, exchange_.WeightsOf(step), step);
      } else {
        sums_.Add(loader_, first, PartsOfWeights<Shape>(weights, step * 2), step);
      }
    }
  }

  SIMT_DEVICE int ColumnOf(int column, int i) const {
    return (FirstHeadColumn() + column) * 8 + lane_ % 4 * 2 + i % 2;
  }

  // Values that are infinite or no number were left out for all rows; here they reach those that
  // see them.
  SIMT_DEVICE void AddNonfinite(int kv_tile) {
    SIMT_ROLLED
    for (int slot = 0; slot < kKvTile; ++slot) {
      const int64_t place = loader_.PlaceAt(kv_tile, slot);
      if (place == KvPlaces::kUnseen) continue;
      const int position = kv_tile * kKvTile + slot;
      SIMT_UNROLL
      for (int column = 0; column < Shape::kHeadColumns; ++column) {
        SIMT_UNROLL
        for (int i = 0; i < 2; ++i) {
          const int col = ColumnOf(column, i);
          if (col >= task_.pool.head_dim) continue;
          const float value = loader_.Value(place, col);
          if (IsUsable(value)) continue;
          if (seen_[0].Has(position)) sums_.At(column, i) += value;
          if (seen_[1].Has(position)) sums_.At(column, i + 2) += value;
        }
        WarpBarrier();  // so that no column's values are loaded, into registers, before its turn
      }
    }
  }

  // ---- Splits ----

  SIMT_DEVICE void BeginSplit() {
    largest_[0] = largest_[1] = -INFINITY;
    sums_.Clear();
  }

  // The tile's i-th.
  SIMT_DEVICE void EndSplit(const AttentionTile& tile, int kv_head, int i, bool is_last) {
    if (tile.partial_begin >= 0) {
      WritePartial(tile, kv_head, tile.partial_begin + i * tile.num_packed);
      return BeginSplit();
    }
    merged_.MergeInto(sums_, largest_);
    if (is_last) return WriteResults(tile, kv_head);
    merged_.Save(sums_, largest_);
    BeginSplit();
  }

  SIMT_DEVICE void WriteResults(const AttentionTile& tile, int kv_head) {
    const int head_dim = task_.pool.head_dim;
    RowAndHead at[2];
    SIMT_UNROLL
    for (int half = 0; half < 2; ++half) {
      at[half] = PlaceOf(tile, Packed(half), task_.group, kv_head);
    }
    sums_.ForAll([&](float& sum, int column, int i) {
      const int col = ColumnOf(column, i);
      if (Packed(i / 2) >= tile.num_packed || col >= head_dim) return;
      StoreElement(task_.out, at[i / 2].row, int64_t{at[i / 2].head} * head_dim + col,
                   sum / sums_.Total(i / 2));
    });
  }

  SIMT_DEVICE void WritePartial(const AttentionTile& tile, int kv_head, int partial_begin) {
    const int head_dim = task_.pool.head_dim;
    float* to[2];
    SIMT_UNROLL
    for (int half = 0; half < 2; ++half) {
      to[half] = task_.partials +
                 ((int64_t{partial_begin} + Packed(half)) * task_.pool.num_kv_heads + kv_head) *
                     PartialFloats(head_dim);
      if (Packed(half) >= tile.num_packed || lane_ % 4 != 0 || member_ != 0) continue;
      to[half][head_dim] = largest_[half];
      to[half][head_dim + 1] = sums_.Total(half);
    }
    sums_.ForAll([&](float& sum, int column, int i) {
      const int col = ColumnOf(column, i);
      if (Packed(i / 2) < tile.num_packed && col < head_dim) to[i / 2][col] = sum;
    });
  }

  const AttentionTask& task_;
  const int lane_;
  const int row_warp_, member_;  // which rows, and which of the warps that share them
  ScoreExchange exchange_;
  MergedSums<Shape> merged_;
  Queries<Shape> queries_;
  LoaderOf<Shape> loader_;
  int begin_ = 0, end_ = 0;  // the tile's tiles of keys and values
  PositionRange seen_[2];    // by the thread's rows
  float largest_[2];         // scores of the split so far
  ValueSums<Shape> sums_;
};

template <class Shape>
SIMT_KERNEL(Shape::kThreads, Shape::kLeastBlocks)
AttendTiles(SIMT_TASK AttentionTask task) {
  AttentionBlock<Shape> block(task, SharedMemory<char>());
  const int kv_heads = task.pool.num_kv_heads, blocks = static_cast<int>(NumBlocks());
  const int count = *task.num_tiles * kv_heads;
  SIMT_ROLLED
  for (int i = static_cast<int>(Block());; i += blocks) {
    const AttentionTile* const tile = i < count ? task.tiles + i / kv_heads : nullptr;
    if (tile != nullptr) block.Locate(*tile, i % kv_heads);
    if (i < blocks) WaitForKernelsBefore();  // the first time
    if (tile == nullptr) return;
    block.Run(*tile, i % kv_heads);
  }
}

template <int kHeadDim, DType kType, int kTileRows>
void LaunchAttend(Stream stream, const AttentionTask& task) {
  using Shape = AttentionBlockShape<kHeadDim, kType, kTileRows>;
  Launch<AttendTiles<Shape>>(stream,
                             {.blocks = task.num_blocks,
                              .threads = Shape::kThreads,
                              .shared_bytes = static_cast<size_t>(SharedBytesOf(task))},
                             task);
}

template <DType kType>
void LaunchType(Stream stream, const AttentionTask& task) {
  constexpr int kFew = kRowsOfTile, kMany = MostTileRows(1);
  const bool is_few = task.tile_rows == kFew;
  switch (PaddedHeadDim(task.pool.head_dim)) {
    case 64:
      return is_few ? LaunchAttend<64, kType, kFew>(stream, task)
                    : LaunchAttend<64, kType, kMany>(stream, task);
    case 128:
      return is_few ? LaunchAttend<128, kType, kFew>(stream, task)
                    : LaunchAttend<128, kType, kMany>(stream, task);
    default:
      return LaunchAttend<kMostHeadDim, kType, kFew>(stream, task);
  }
}

}  // namespace sluice::cuda::SIMT_NAMESPACE
