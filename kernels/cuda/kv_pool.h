// Keys and values of all blocks of some layers, in memory of the device.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/stream.h"
#include "kernels/dtype.h"
#include "kernels/matrix_view.h"

namespace sluice::cuda {

// Vectors of head_dim elements, by layer, block, head and slot: what one head has in a block lies
// together. First those of all keys, then those of all values; in FP8 (kernels/kv_format.h) a word
// for each position behind them, its lower half the scale of the key and its upper that of the
// value.
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
  int64_t values_begin = 0;  // bytes behind `data`
  int64_t scales_begin = 0;

  // The number of the vector of keys, or of values, of slot `slot`.
  constexpr int64_t Vector(int layer, int64_t block, int head, int slot) const {
    return ((int64_t{layer} * num_blocks + block) * num_kv_heads + head) * block_size + slot;
  }
  // Vectors of keys, or of values, that all heads have in a block of one layer.
  constexpr int64_t BlockVectors() const { return int64_t{num_kv_heads} * block_size; }
  constexpr int64_t NumVectors() const { return int64_t{num_layers} * num_blocks * BlockVectors(); }
  // Bytes of a vector without its scale.
  constexpr int64_t VectorBytes() const {
    return int64_t{head_dim} * static_cast<int64_t>(SizeOf(dtype));
  }
  // Says where values and scales begin. Words are aligned.
  constexpr void Place() {
    values_begin = NumVectors() * VectorBytes();
    scales_begin = (2 * values_begin + 3) / 4 * 4;
  }
  // What all takes, once that is said.
  constexpr int64_t Bytes() const {
    return dtype == DType::kF8E4M3 ? scales_begin + 4 * NumVectors() : 2 * values_begin;
  }
};

// Where a row of a step lies: its position, and where its sequence's block table begins among the
// step's, or -1: the row belongs to no sequence and is stored nowhere.
struct RowPlace {
  int32_t position = 0;
  int32_t table_begin = -1;
};

// QkNormRopeParams of kernels/backend.h: nothing where there are neither norms nor angles.
struct QkNormRopeTask {
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
  QkNormRopeTask turn;
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
