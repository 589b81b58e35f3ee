// Attention of one block of threads: each warp takes 16 packed rows; all go through the keys and
// values of a KV head together, 64 positions at a time, by online softmax (Milakov and Gimelshein
// 2018; Dao et al. 2023). After simt.h.
#pragma once

#include "kernels/attention_splits.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/attention_plan.h"
#include "kernels/cuda/kernels/attention_merge.h"
#include "kernels/cuda/kernels/attention_shape.h"
#include "kernels/cuda/kernels/elements.h"

namespace sluice::cuda::SIMT_NAMESPACE {

// Two numbers as sums of two BF16 numbers each.
struct PairParts {
  uint32_t high, low;
};
SIMT_DEVICE PairParts SplitPair(float first, float second) {
  const uint32_t high = PackBFloat16(first, second);
  return {high, PackBFloat16(first - FloatFromBits(high << 16),
                             second - FloatFromBits(high & 0xffff0000u))};
}

template <int kHeadDim, int kParts, int kWarps>
class AttentionBlock {
 public:
  static constexpr int kThreads = kWarps * kWarpSize;
  static constexpr int kRows = kWarps * 16;
  static constexpr int kSteps = kHeadDim / 16;       // of the product of queries and keys
  static constexpr int kColumns = kKvTile / 8;       // of scores, by 8 positions
  static constexpr int kHeadColumns = kHeadDim / 8;  // of sums
  static constexpr int kPieces = kHeadDim / 8;       // of 16 bytes, in a row of a tile
  static constexpr int kTilesPerSplit = static_cast<int>(kAttentionSplit) / kKvTile;
  static constexpr bool kQueriesInRegisters = HoldsQueriesInRegisters(kHeadDim);
  static constexpr int kPartBytes = kKvTile * kHeadDim * 2;
  static constexpr int kKvBytes = kPartBytes * kParts;  // keys, or values

  SIMT_DEVICE explicit AttentionBlock(const AttentionTask& task)
      : task_(task), warp_(Thread() / kWarpSize), lane_(Thread() % kWarpSize) {
    merged_sums_ = SharedMemory<float>();
    char* next = SharedMemory<char>() + MergedBytes(kHeadDim, kRows);
    queries_ = reinterpret_cast<Words*>(next);
    kv_ = next + QueryBytes(kHeadDim, kRows);
  }

  // The rows of `tile` over the keys and values of `kv_head`.
  SIMT_DEVICE void Run(const AttentionTile& tile, int kv_head) {
    tile_ = tile;
    kv_head_ = kv_head;
    is_careful_ = *task_.pool.has_nonfinite != 0;
    Place();
    LoadQueries();
    merged_ = {};
    const int64_t begin =
        Larger()(int64_t{tile.split_begin} * kTilesPerSplit, seen_begin_ / kKvTile);
    const int64_t end =
        Smaller()(int64_t{tile.split_end} * kTilesPerSplit, (seen_end_ + kKvTile - 1) / kKvTile);
    BeginSplit();
    if (task_.stages == 2) Stage(begin, 0);
    CommitCopies();
    int stage = 0;
    for (int64_t kv_tile = begin; kv_tile < end; ++kv_tile) {
      Barrier();  // before what the last round read is written over
      if (task_.stages == 1) {
        Stage(kv_tile, 0);
        CommitCopies();
        WaitForCopies<0>();
      } else {
        if (kv_tile + 1 < end) Stage(kv_tile + 1, 1 - stage);
        CommitCopies();
        WaitForCopies<1>();
      }
      Barrier();
      Attend(kv_tile, stage);
      if (task_.stages == 2) stage = 1 - stage;
      if ((kv_tile + 1) % kTilesPerSplit == 0 || kv_tile + 1 == end) EndSplit(kv_tile + 1 == end);
    }
    WaitForCopies<0>();
    Barrier();  // before another tile's are written over
  }

 private:
  // One of the two packed rows that a thread has sums of: those of lanes' quarters g and g + 8.
  struct Row {
    int64_t row = 0;        // of the step
    int64_t position = -1;  // -1: there is no such row
    int64_t first_seen = 0;
    int head = 0;
    int packed = 0;  // within the tile
  };

  SIMT_DEVICE void Place() {
    SIMT_UNROLL
    for (int half = 0; half < 2; ++half) {
      Row& row = rows_[half];
      row.packed = warp_ * 16 + lane_ / 4 + half * 8;
      const int64_t packed = tile_.first_packed + row.packed;
      const int64_t token = packed / task_.group;
      row.head = kv_head_ * task_.group + static_cast<int>(packed % task_.group);
      row.row = tile_.first_row + token;
      row.position = row.packed < tile_.num_packed ? tile_.first_position + token : -1;
      row.first_seen = FirstSeenPosition(row.position, task_.window);
    }
    const int64_t first = tile_.first_position + tile_.first_packed / task_.group;
    const int64_t last =
        tile_.first_position + (tile_.first_packed + tile_.num_packed - 1) / task_.group;
    seen_begin_ = FirstSeenPosition(first, task_.window);
    seen_end_ = last + 1;
  }

  SIMT_DEVICE bool Sees(const Row& row, int64_t position) const {
    return row.first_seen <= position && position <= row.position;
  }

  // ---- Queries: two parts of each, as fragments of A ----

  SIMT_DEVICE float QueryAt(const Row& row, int col) const {
    if (row.position < 0 || col >= task_.pool.head_dim) return 0;
    return RowOf(task_.q, row.row)[int64_t{row.head} * task_.pool.head_dim + col];
  }

  SIMT_DEVICE void LoadQueries() {
    SIMT_UNROLL
    for (int step = 0; step < kSteps; ++step) {
      uint32_t parts[2][4];
      SIMT_UNROLL
      for (int i = 0; i < 4; ++i) {
        const TileElement at = ElementOfA(lane_, 2 * i);
        const Row& row = rows_[i % 2];
        const int col = step * 16 + at.col;
        const PairParts pair = SplitPair(QueryAt(row, col), QueryAt(row, col + 1));
        parts[0][i] = pair.high;
        parts[1][i] = pair.low;
      }
      SIMT_UNROLL
      for (int part = 0; part < 2; ++part) {
        SIMT_UNROLL
        for (int i = 0; i < 4; ++i) {
          if constexpr (kQueriesInRegisters) {
            held_queries_[step][part][i] = parts[part][i];
          } else {
            queries_[QueryIndex(step, part)].word[i] = parts[part][i];
          }
        }
      }
    }
  }
  SIMT_DEVICE int QueryIndex(int step, int part) const {
    return ((step * 2 + part) * kWarps + warp_) * kWarpSize + lane_;
  }
  SIMT_DEVICE void Query(int step, int part, uint32_t (&a)[4]) const {
    SIMT_UNROLL
    for (int i = 0; i < 4; ++i) {
      if constexpr (kQueriesInRegisters) {
        a[i] = held_queries_[step][part][i];
      } else {
        a[i] = queries_[QueryIndex(step, part)].word[i];  // a thread's own
      }
    }
  }

  // ---- Keys and values in shared memory ----

  // Rows are positions, of kPieces swizzled pieces.
  SIMT_DEVICE static int PieceOffset(int position, int piece) {
    return (position * kPieces + SwizzledPiece(position, piece)) * 16;
  }
  SIMT_DEVICE char* KeysAt(int stage) const { return kv_ + stage * 2 * kKvBytes; }
  SIMT_DEVICE char* ValuesAt(int stage) const { return KeysAt(stage) + kKvBytes; }

  // Where the elements of `position`, which the tile's rows see, begin.
  SIMT_DEVICE int64_t ElementIndex(int64_t position, bool is_value) const {
    const KvLayout& pool = task_.pool;
    const int64_t block = task_.tables[tile_.table_begin + position / pool.block_size];
    return pool.Index(task_.layer, block, is_value, kv_head_,
                      static_cast<int>(position % pool.block_size));
  }

  // Brings keys and values of a tile of positions; zeroes for those that no row of the block sees.
  SIMT_DEVICE void Stage(int64_t kv_tile, int stage) {
    const bool is_direct = kParts == 1 && task_.pool.head_dim % 8 == 0 && !is_careful_;
    for (int i = Thread(); i < 2 * kKvTile * kPieces; i += kThreads) {
      const bool is_value = i >= kKvTile * kPieces;
      const int row = i / kPieces % kKvTile, piece = i % kPieces;
      const int64_t position = kv_tile * kKvTile + row;
      const bool is_real =
          seen_begin_ <= position && position < seen_end_ && piece * 8 < task_.pool.head_dim;
      const int64_t index = is_real ? ElementIndex(position, is_value) + piece * 8 : 0;
      char* const to = (is_value ? ValuesAt(stage) : KeysAt(stage)) + PieceOffset(row, piece);
      if (is_direct) {
        CopyAsync(to, task_.pool.data + index * 2, is_real);
      } else {
        ConvertPiece(index, is_real ? task_.pool.head_dim - piece * 8 : 0, is_value, to);
      }
    }
  }

  SIMT_DEVICE float KvElement(int64_t index) const {
    if constexpr (kParts == 2) return reinterpret_cast<const float*>(task_.pool.data)[index];
    return Widened(reinterpret_cast<const uint16_t*>(task_.pool.data)[index]);
  }
  SIMT_DEVICE static bool IsUsable(float value) { return IsFinite(Widened(Rounded(value))); }

  // The first `count` of eight elements, in parts; values that are not finite become zero.
  SIMT_DEVICE void ConvertPiece(int64_t index, int count, bool is_value, char* to) {
    Words parts[2];
    SIMT_UNROLL
    for (int i = 0; i < 4; ++i) {
      float pair[2];
      SIMT_UNROLL
      for (int j = 0; j < 2; ++j) {
        pair[j] = 2 * i + j < count ? KvElement(index + 2 * i + j) : 0.0f;
        if (is_value && !IsUsable(pair[j])) pair[j] = 0;
      }
      const PairParts split = SplitPair(pair[0], pair[1]);
      parts[0].word[i] = split.high;
      parts[1].word[i] = split.low;
    }
    SIMT_UNROLL
    for (int part = 0; part < kParts; ++part) {
      *reinterpret_cast<Words*>(to + part * kPartBytes) = parts[part];
    }
  }

  // ---- One tile of positions ----

  SIMT_DEVICE void Attend(int64_t kv_tile, int stage) {
    float scores[kColumns][4];
    Score(KeysAt(stage), scores);
    Weigh(kv_tile * kKvTile, scores);
    AddValues(ValuesAt(stage), scores);
    if (is_careful_) AddNonfinite(kv_tile * kKvTile);
  }

  SIMT_DEVICE void Score(const char* keys, float (&scores)[kColumns][4]) const {
    SIMT_UNROLL
    for (int column = 0; column < kColumns; ++column) {
      SIMT_UNROLL
      for (int i = 0; i < 4; ++i) scores[column][i] = 0;
    }
    SIMT_UNROLL
    for (int step = 0; step < kSteps; ++step) {
      uint32_t high[4], low[4];
      Query(step, 0, high);
      Query(step, 1, low);
      SIMT_UNROLL
      for (int pair = 0; pair < kColumns / 2; ++pair) {
        uint32_t k[kParts][4];
        const int position = pair * 16 + lane_ / 16 * 8 + lane_ % 8;
        const int piece = step * 2 + lane_ / 8 % 2;
        SIMT_UNROLL
        for (int part = 0; part < kParts; ++part) {
          LoadMatrices(keys + part * kPartBytes + PieceOffset(position, piece), k[part]);
        }
        SIMT_UNROLL
        for (int side = 0; side < 2; ++side) {
          float(&sum)[4] = scores[pair * 2 + side];
          MultiplyTiles(high, k[0][side * 2], k[0][side * 2 + 1], sum);
          MultiplyTiles(low, k[0][side * 2], k[0][side * 2 + 1], sum);
          if constexpr (kParts == 2) {
            MultiplyTiles(high, k[1][side * 2], k[1][side * 2 + 1], sum);
          }
        }
      }
    }
  }

  // Scores become weights, relative to the largest score so far; sums so far follow it.
  SIMT_DEVICE void Weigh(int64_t first_position, float (&scores)[kColumns][4]) {
    constexpr float kLog2E = 1.4426950408889634f;
    const float scale = task_.scale * kLog2E;
    SIMT_UNROLL
    for (int half = 0; half < 2; ++half) {
      float largest = -INFINITY;
      SIMT_UNROLL
      for (int column = 0; column < kColumns; ++column) {
        SIMT_UNROLL
        for (int i = 0; i < 2; ++i) {
          float& score = scores[column][half * 2 + i];
          const int64_t position = first_position + column * 8 + lane_ % 4 * 2 + i;
          score = Sees(rows_[half], position) ? score * scale : -INFINITY;
          largest = Larger()(largest, score);
        }
      }
      largest = Larger()(largest, ShuffleXor(largest, 1));
      largest = Larger()(largest, ShuffleXor(largest, 2));
      SplitState& state = state_[half];
      const float now = Larger()(state.largest, largest);
      const float shrink = ShareOf(state.largest, now);
      float total = 0;
      SIMT_UNROLL
      for (int column = 0; column < kColumns; ++column) {
        SIMT_UNROLL
        for (int i = 0; i < 2; ++i) {
          float& score = scores[column][half * 2 + i];
          score = score == -INFINITY ? 0.0f : Exp2(score - now);
          total += score;
        }
      }
      total += ShuffleXor(total, 1);
      total += ShuffleXor(total, 2);
      state.total = FusedMultiplyAdd(state.total, shrink, total);
      state.largest = now;
      SIMT_UNROLL
      for (int column = 0; column < kHeadColumns; ++column) {
        sums_[column][half * 2] *= shrink;
        sums_[column][half * 2 + 1] *= shrink;
      }
    }
  }

  SIMT_DEVICE void AddValues(const char* values, const float (&weights)[kColumns][4]) {
    SIMT_UNROLL
    for (int step = 0; step < kKvTile / 16; ++step) {
      // Two columns of scores lie in a thread as a fragment of A does.
      uint32_t high[4], low[4];
      SIMT_UNROLL
      for (int i = 0; i < 4; ++i) {
        const float(&column)[4] = weights[step * 2 + i / 2];
        const PairParts pair = SplitPair(column[i % 2 * 2], column[i % 2 * 2 + 1]);
        high[i] = pair.high;
        low[i] = pair.low;
      }
      SIMT_UNROLL
      for (int pair = 0; pair < kHeadColumns / 2; ++pair) {
        uint32_t v[kParts][4];
        const int position = step * 16 + lane_ / 8 % 2 * 8 + lane_ % 8;
        const int piece = pair * 2 + lane_ / 16;
        SIMT_UNROLL
        for (int part = 0; part < kParts; ++part) {
          LoadTransposed(values + part * kPartBytes + PieceOffset(position, piece), v[part]);
        }
        SIMT_UNROLL
        for (int side = 0; side < 2; ++side) {
          float(&sum)[4] = sums_[pair * 2 + side];
          MultiplyTiles(high, v[0][side * 2], v[0][side * 2 + 1], sum);
          MultiplyTiles(low, v[0][side * 2], v[0][side * 2 + 1], sum);
          if constexpr (kParts == 2) {
            MultiplyTiles(high, v[1][side * 2], v[1][side * 2 + 1], sum);
          }
        }
      }
    }
  }

  // Values that are infinite or no number were left out for all rows; here they reach those that
  // see them.
  SIMT_DEVICE void AddNonfinite(int64_t first_position) {
    for (int64_t position = Larger()(first_position, seen_begin_);
         position < Smaller()(first_position + kKvTile, seen_end_); ++position) {
      const int64_t index = ElementIndex(position, true);
      SIMT_UNROLL
      for (int column = 0; column < kHeadColumns; ++column) {
        SIMT_UNROLL
        for (int i = 0; i < 4; ++i) {
          const int col = column * 8 + lane_ % 4 * 2 + i % 2;
          if (col >= task_.pool.head_dim || !Sees(rows_[i / 2], position)) continue;
          const float value = KvElement(index + col);
          if (!IsUsable(value)) sums_[column][i] += value;
        }
      }
    }
  }

  // ---- Splits ----

  SIMT_DEVICE void BeginSplit() {
    SIMT_UNROLL
    for (int half = 0; half < 2; ++half) state_[half] = {};
    SIMT_UNROLL
    for (int column = 0; column < kHeadColumns; ++column) {
      SIMT_UNROLL
      for (int i = 0; i < 4; ++i) sums_[column][i] = 0;
    }
  }

  SIMT_DEVICE void EndSplit(bool is_last) {
    if (tile_.partial_begin >= 0) return WritePartial();
    if (merged_.has_any) {
      MergeWithSums();
    }
    if (is_last) return WriteResults();
    SaveSums();
    BeginSplit();
  }

  SIMT_DEVICE float& MergedSum(int column, int i) const {
    return merged_sums_[(column * 4 + i) * kThreads + Thread()];
  }

  SIMT_DEVICE void SaveSums() {
    merged_.has_any = true;
    SIMT_UNROLL
    for (int half = 0; half < 2; ++half) merged_.state[half] = state_[half];
    SIMT_UNROLL
    for (int column = 0; column < kHeadColumns; ++column) {
      SIMT_UNROLL
      for (int i = 0; i < 4; ++i) MergedSum(column, i) = sums_[column][i];
    }
  }

  // The split at hand behind those before it.
  SIMT_DEVICE void MergeWithSums() {
    SIMT_UNROLL
    for (int half = 0; half < 2; ++half) {
      const MergeShares shares = Merge(merged_.state[half], state_[half]);
      state_[half] = shares.state;
      SIMT_UNROLL
      for (int column = 0; column < kHeadColumns; ++column) {
        SIMT_UNROLL
        for (int i = half * 2; i < half * 2 + 2; ++i) {
          sums_[column][i] = MergedSumOf(MergedSum(column, i), sums_[column][i], shares);
        }
      }
    }
  }

  SIMT_DEVICE void WriteResults() {
    SIMT_UNROLL
    for (int half = 0; half < 2; ++half) {
      const Row& row = rows_[half];
      if (row.position < 0) continue;
      SIMT_UNROLL
      for (int column = 0; column < kHeadColumns; ++column) {
        SIMT_UNROLL
        for (int i = 0; i < 2; ++i) {
          const int col = column * 8 + lane_ % 4 * 2 + i;
          if (col >= task_.pool.head_dim) continue;
          StoreElement(task_.out, row.row, int64_t{row.head} * task_.pool.head_dim + col,
                       sums_[column][half * 2 + i] / state_[half].total);
        }
      }
    }
  }

  SIMT_DEVICE void WritePartial() {
    const int head_dim = task_.pool.head_dim;
    SIMT_UNROLL
    for (int half = 0; half < 2; ++half) {
      const Row& row = rows_[half];
      if (row.position < 0) continue;
      float* const to =
          task_.partials +
          ((int64_t{tile_.partial_begin} + row.packed) * task_.pool.num_kv_heads + kv_head_) *
              PartialFloats(head_dim);
      SIMT_UNROLL
      for (int column = 0; column < kHeadColumns; ++column) {
        SIMT_UNROLL
        for (int i = 0; i < 2; ++i) {
          const int col = column * 8 + lane_ % 4 * 2 + i;
          if (col < head_dim) to[col] = sums_[column][half * 2 + i];
        }
      }
      if (lane_ % 4 == 0) {
        to[head_dim] = state_[half].largest;
        to[head_dim + 1] = state_[half].total;
      }
    }
  }

  struct Merged {
    bool has_any = false;
    SplitState state[2];
  };

  const AttentionTask& task_;
  const int warp_, lane_;
  float* merged_sums_;
  Words* queries_;
  char* kv_;
  AttentionTile tile_;
  int kv_head_ = 0;
  bool is_careful_ = false;
  int64_t seen_begin_ = 0, seen_end_ = 0;  // positions that any row of the tile sees
  Row rows_[2];
  uint32_t held_queries_[kQueriesInRegisters ? kSteps : 1][2][4];
  SplitState state_[2];
  float sums_[kHeadColumns][4];
  Merged merged_;
};

template <int kHeadDim, int kParts, int kWarps>
SIMT_KERNEL(kWarps* kWarpSize, 1)
AttendTiles(const AttentionTask task) {
  AttentionBlock<kHeadDim, kParts, kWarps> block(task);
  const int64_t count = int64_t{*task.num_tiles} * task.pool.num_kv_heads;
  for (int64_t i = Block(); i < count; i += NumBlocks()) {
    block.Run(task.tiles[i / task.pool.num_kv_heads], static_cast<int>(i % task.pool.num_kv_heads));
  }
}

template <int kHeadDim, int kParts, int kWarps>
void LaunchAttend(Stream stream, const AttentionTask& task) {
  Launch<AttendTiles<kHeadDim, kParts, kWarps>>(
      stream,
      {.blocks = task.num_blocks,
       .threads = kWarps * kWarpSize,
       .shared_bytes = static_cast<size_t>(SharedBytesOf(task))},
      task);
}

template <int kParts, int kWarps>
void LaunchHeads(Stream stream, const AttentionTask& task) {
  if (PaddedHeadDim(task.pool.head_dim) == 64)
    return LaunchAttend<64, kParts, kWarps>(stream, task);
  return LaunchAttend<128, kParts, kWarps>(stream, task);
}

template <int kParts>
void LaunchParts(Stream stream, const AttentionTask& task) {
  if (task.pool.head_dim > 128) return LaunchAttend<kMostHeadDim, kParts, 1>(stream, task);
  return task.tile_rows == 16 ? LaunchHeads<kParts, 1>(stream, task)
                              : LaunchHeads<kParts, 4>(stream, task);
}

}  // namespace sluice::cuda::SIMT_NAMESPACE
