// Keys and values of all blocks of some layers, in memory of the device.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/stream.h"
#include "kernels/dtype.h"
#include "kernels/matrix_view.h"

namespace sluice::cuda {

// By layer, block, keys or values, head, slot and element: what one head has in a block lies
// together.
struct KvLayout {
  std::byte* data = nullptr;
  // Becomes 1 when a value that is infinite or no number is stored: attention then takes care that
  // it reaches nobody who doesn't see it.
  int* has_nonfinite = nullptr;
  int num_layers = 0;
  int num_blocks = 0;
  int block_size = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  DType dtype = DType::kF32;

  // Elements of all keys, or all values, of one head in a block.
  constexpr int64_t HeadElements() const { return int64_t{block_size} * head_dim; }
  constexpr int64_t BlockElements() const { return int64_t{2} * num_kv_heads * HeadElements(); }
  constexpr int64_t BlockBytes() const { return BlockElements() * (dtype == DType::kF32 ? 4 : 2); }
  // The first element of slot `slot`.
  constexpr int64_t Index(int layer, int64_t block, bool values, int head, int slot) const {
    return (int64_t{layer} * num_blocks + block) * BlockElements() +
           (int64_t{values ? num_kv_heads : 0} + head) * HeadElements() + int64_t{slot} * head_dim;
  }
};

// Where a row of a step lies: its position, and where its sequence's block table begins among the
// step's, or -1: the row belongs to no sequence and is stored nowhere.
struct RowPlace {
  int32_t position = 0;
  int32_t table_begin = -1;
};

// HeadTurn of kernels/backend.h: nothing where there are neither norms nor angles.
struct TurnTask {
  const float* query_norm = nullptr;  // [D] or null
  const float* key_norm = nullptr;    // [D] or null
  float norm_eps = 0;
  MatrixView cos, sin;         // [rows, pairs] F32; pairs may be 0
  bool angles_by_row = false;  // of the step, else by position
  bool interleaved = false;
};

// Queries are turned in place, keys on their way to their slots. Keys stay as they are.
struct StoreKvTask {
  MatrixView queries;       // [T, Nq * D] F32; Nq may be 0
  MatrixView keys, values;  // [T, Nkv * D] F32
  TurnTask turn;
  KvLayout pool;
  int layer = 0;
  const RowPlace* rows = nullptr;   // [T]
  const int32_t* tables = nullptr;  // the step's block tables one after another
};

struct BlockCopy {
  int32_t source = 0;
  int32_t destination = 0;
};

// None of the copies reads or writes what another writes.
struct CopyBlocksTask {
  KvLayout pool;
  const BlockCopy* copies = nullptr;  // [count] of the device
  int64_t count = 0;
};

using LaunchStoreKv = void (*)(Stream, const StoreKvTask&);
using LaunchCopyBlocks = void (*)(Stream, const CopyBlocksTask&);

}  // namespace sluice::cuda
