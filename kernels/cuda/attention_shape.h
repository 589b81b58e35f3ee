// Which attention kernel a task takes, and the shared memory of its blocks. Pure functions.
#pragma once

#include <cstdint>

#include "kernels/cuda/attention.h"
#include "kernels/cuda/attention_plan.h"
#include "kernels/cuda/fragment.h"

namespace sluice::cuda {

// Packed rows of one tile of the matrix instruction.
inline constexpr int kRowsOfTile = 16;
inline constexpr int kAttentionWarps = 4;

// Heads are filled up with zeroes to one of these.
constexpr int PaddedHeadDim(int head_dim) {
  return head_dim <= 64 ? 64 : head_dim <= 128 ? 128 : kMostHeadDim;
}

// BF16 numbers whose sum stands for one of the keys and values; in FP8 there is one for each code.
constexpr int PartsOf(DType kv_dtype) { return kv_dtype == DType::kF32 ? 2 : 1; }

// Queries have two parts (their BF16 numbers and what those leave), a fragment of each for every 16
// elements. A thread holds so many of a part in its registers, as far as they have room beside its
// sums; the others lie in shared memory.
constexpr int HeldFragments(int padded_head_dim, int part) {
  if (padded_head_dim > 128) return 0;
  return padded_head_dim / 16 / (part == 1 && padded_head_dim > 64 ? 8 : 1);
}

// How a block's warps share out the work on its packed rows: each takes 16 of them, or all take the
// same 16, each a share of the positions' scores and then of the sums' columns. Either way a score
// and a sum are the same chain of instructions.
template <int kPaddedHeadDim, DType kKvType, int kTileRows>
struct AttentionBlockShape {
  static constexpr int kHeadDim = kPaddedHeadDim;
  static constexpr DType kType = kKvType;
  static constexpr int kParts = PartsOf(kKvType);
  static constexpr int kWarps = kAttentionWarps;
  static constexpr int kThreads = kWarps * kWarpSize;
  static constexpr int kRowWarps = kTileRows / kRowsOfTile;  // side by side
  static constexpr int kSharing = kWarps / kRowWarps;        // with the same rows
  static constexpr int kSteps = kHeadDim / 16;               // of the product of queries and keys
  static constexpr int kPieces = kHeadDim / 8;               // of 16 bytes, in a row of a KV tile
  static constexpr int kColumns = kKvTile / 8 / kSharing;    // of a warp's scores, by 8 positions
  static constexpr int kHeadColumns = kHeadDim / 8 / kSharing;  // of a warp's sums
  static constexpr int kPartBytes = kKvTile * kHeadDim * 2;
  static constexpr int kKvBytes = kPartBytes * kParts;  // keys, or values
  // In registers, too, where there are few sums.
  static constexpr bool kHoldsMergedSums = kSharing > 1;
  // Of a multiprocessor, at a time. What the largest heads take, shared memory says.
  static constexpr int kLeastBlocks = kHeadDim > 128 ? 1 : RegisterBlocks(kHeadDim, kTileRows);
};

// ---- Shared memory of a block, in this order ----

// Where the tiles of positions at hand and to come lie in the pool.
inline constexpr int kPlacesKept = 4;
constexpr int64_t PlaceBytes() { return int64_t{kPlacesKept} * kKvTile * 8; }
// What warps that share rows tell each other: largest scores, and weights as fragments of A.
constexpr int64_t ExchangeBytes(int tile_rows) {
  const bool is_shared = tile_rows == kRowsOfTile;
  return is_shared ? kAttentionWarps * kRowsOfTile * 4 + kKvTile / 16 * 2 * kWarpSize * 16 : 0;
}
// The sums of splits that are merged already, one per sum of a thread.
constexpr int64_t MergedBytes(int padded_head_dim, int tile_rows) {
  return tile_rows == kRowsOfTile ? 0 : int64_t{tile_rows} * padded_head_dim * 4;
}
// The fragments of queries that no thread holds.
constexpr int64_t QueryBytes(int padded_head_dim, int tile_rows) {
  const int fragments = padded_head_dim / 16 * 2 - HeldFragments(padded_head_dim, 0) -
                        HeldFragments(padded_head_dim, 1);
  return int64_t{tile_rows / kRowsOfTile} * fragments * kWarpSize * 16;
}
// A tile of keys or values, one part after the other.
constexpr int64_t KvTileBytes(int padded_head_dim, int parts) {
  return int64_t{kKvTile} * padded_head_dim * 2 * parts;
}
// Keys and values of a tile as they come: what is multiplied or, in FP8, codes and a word of scales
// for each position.
constexpr int64_t KvStageBytes(int padded_head_dim, DType dtype) {
  if (dtype == DType::kF8E4M3) return int64_t{kKvTile} * (2 * padded_head_dim + 4);
  return 2 * KvTileBytes(padded_head_dim, PartsOf(dtype));
}
// What is multiplied, where that is not what comes.
constexpr int64_t UnpackedBytes(int padded_head_dim, DType dtype) {
  return dtype == DType::kF8E4M3 ? 2 * KvTileBytes(padded_head_dim, 1) : 0;
}

constexpr int64_t AttentionSharedBytesOf(int padded_head_dim, DType dtype, int tile_rows,
                                         int stages) {
  return PlaceBytes() + ExchangeBytes(tile_rows) + MergedBytes(padded_head_dim, tile_rows) +
         QueryBytes(padded_head_dim, tile_rows) + UnpackedBytes(padded_head_dim, dtype) +
         stages * KvStageBytes(padded_head_dim, dtype);
}

inline int64_t SharedBytesOf(const AttentionTask& task) {
  return AttentionSharedBytesOf(PaddedHeadDim(task.pool.head_dim), task.pool.dtype, task.tile_rows,
                                task.stages);
}

}  // namespace sluice::cuda
