// Attention over paged keys and values: one contract for decode and prefill.
#pragma once

#include <cstdint>

#include "kernels/cuda/kv_pool.h"
#include "kernels/cuda/stream.h"
#include "kernels/matrix_view.h"

namespace sluice::cuda {

struct AttentionTile;
struct MergeTile;

// Queries, and the weights of values, are taken as the sum of two BF16 numbers each, F32 keys and
// values too; products are summed in F32 by matrix instructions. So nothing is rounded to fewer
// than 16 bits.
struct AttentionTask {
  MatrixView q;    // [T, Nq * D] F32
  MatrixView out;  // [T, Nq * D] F32 or BF16
  KvLayout pool;
  int layer = 0;
  int group = 1;
  float scale = 1;
  int64_t window = 0;
  float softcap = 0;                // AttentionOptions::softcap
  const int32_t* tables = nullptr;  // the segments' block tables one after another
  // Of the device, as the step's plan says; counts lie there, too, so that a step may be recorded.
  const AttentionTile* tiles = nullptr;
  const int32_t* num_tiles = nullptr;
  int tile_rows = 64;  // kLeastTileRows or MostTileRows()
  // By partial: sums of weighted values [D], then the largest score and the sum of weights.
  float* partials = nullptr;
  int num_blocks = 1;  // of threads; share out the tiles among them
  int stages = 2;      // of keys and values that are under way at a time: 1 or 2
};

struct MergeSplitsTask {
  MatrixView out;
  int num_kv_heads = 1;
  int group = 1;
  int head_dim = 0;
  const MergeTile* tiles = nullptr;
  const int32_t* num_tiles = nullptr;
  const float* partials = nullptr;
  int num_blocks = 1;
};

// Heads up to this size.
inline constexpr int kMostHeadDim = 256;

// Packed rows of a block of threads: larger heads leave room for one warp's sums.
inline constexpr int kLeastTileRows = 16;
constexpr int MostTileRows(int head_dim) { return head_dim <= 128 ? 64 : kLeastTileRows; }

// Blocks of a multiprocessor at a time, as far as the registers of their threads go: their kernels are
// bound to leave room for so many where decode lives on what is under way, and two always fit.
constexpr int RegisterBlocks(int head_dim, int tile_rows) {
  return head_dim <= 128 && tile_rows == kLeastTileRows ? 3 : 2;
}

constexpr int64_t PartialFloats(int head_dim) { return head_dim + 2; }

using LaunchAttention = void (*)(Stream, const AttentionTask&);
using LaunchMergeSplits = void (*)(Stream, const MergeSplitsTask&);
// Shared memory of a block.
using AttentionSharedBytes = int64_t (*)(const AttentionTask&);

}  // namespace sluice::cuda
