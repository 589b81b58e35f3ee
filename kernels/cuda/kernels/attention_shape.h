// Which attention kernel a task takes, and the shared memory of its blocks. Pure functions.
#pragma once

#include <cstdint>

#include "kernels/cuda/attention.h"
#include "kernels/cuda/attention_plan.h"
#include "kernels/cuda/fragment.h"

namespace sluice::cuda {

// Heads are filled up with zeroes to one of these.
constexpr int PaddedHeadDim(int head_dim) {
  return head_dim <= 64 ? 64 : head_dim <= 128 ? 128 : kMostHeadDim;
}

// Whether a warp's queries fit its registers, beside its sums.
constexpr bool HoldsQueriesInRegisters(int padded_head_dim) { return padded_head_dim <= 128; }

// BF16 numbers whose sum stands for one of the keys and values.
constexpr int PartsOf(DType kv_dtype) { return kv_dtype == DType::kF32 ? 2 : 1; }

// A tile of keys or values, one part after the other.
constexpr int64_t KvTileBytes(int padded_head_dim, int parts) {
  return int64_t{kKvTile} * padded_head_dim * 2 * parts;
}
// The sums of splits that are merged already, one per sum of a thread.
constexpr int64_t MergedBytes(int padded_head_dim, int tile_rows) {
  return int64_t{tile_rows} * padded_head_dim * 4;
}
constexpr int64_t QueryBytes(int padded_head_dim, int tile_rows) {
  return HoldsQueriesInRegisters(padded_head_dim) ? 0 : int64_t{tile_rows} * padded_head_dim * 4;
}

inline int64_t SharedBytesOf(const AttentionTask& task) {
  const int padded = PaddedHeadDim(task.pool.head_dim);
  return MergedBytes(padded, task.tile_rows) + QueryBytes(padded, task.tile_rows) +
         2 * task.stages * KvTileBytes(padded, PartsOf(task.pool.dtype));
}

}  // namespace sluice::cuda
