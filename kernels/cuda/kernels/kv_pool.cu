#include "simt.h"

// After simt.h.
#include "kernels/cuda/kernels/head_vector.h"
#include "kernels/cuda/kernels/launchers.h"

namespace sluice::cuda::SIMT_NAMESPACE {
namespace {

constexpr int kThreads = 128;
constexpr int kHeadsAtATime = kThreads / kWarpSize;

// A warp takes a head's vector of a row: first those of the queries, then keys, then values.
SIMT_KERNEL(kThreads, 8) StoreHeads(SIMT_TASK StoreKvTask task) {
  WaitForKernelsBefore();
  const int64_t heads = HeadsOfRow(task);
  const int64_t index = Block() * kHeadsAtATime + Thread() / kWarpSize;
  if (index >= task.keys.rows * heads) return;
  HeadVector(task, index / heads, static_cast<int>(index % heads)).Run();
}

// A block of threads copies a block of one layer, in 2-byte elements or larger ones where all
// addresses allow it.
template <class T>
SIMT_DEVICE void CopyBytes(const KvLayout& pool, int64_t from, int64_t to) {
  const T* const source = reinterpret_cast<const T*>(pool.data + from);
  T* const destination = reinterpret_cast<T*>(pool.data + to);
  const int64_t count = pool.BlockBytes() / static_cast<int64_t>(sizeof(T));
  for (int64_t i = Thread(); i < count; i += kThreads) destination[i] = source[i];
}

SIMT_KERNEL(kThreads, 8) CopyBlock(SIMT_TASK CopyBlocksTask task) {
  WaitForKernelsBefore();
  const KvLayout& pool = task.pool;
  const BlockCopy copy = task.copies[Block() / pool.num_layers];
  const int64_t layer = Block() % pool.num_layers * pool.num_blocks;
  const int64_t from = (layer + copy.source) * pool.BlockBytes();
  const int64_t to = (layer + copy.destination) * pool.BlockBytes();
  if (pool.BlockBytes() % 16 == 0) {
    CopyBytes<Words>(pool, from, to);
  } else {
    CopyBytes<uint16_t>(pool, from, to);
  }
}

}  // namespace

void StoreKv(Stream stream, const StoreKvTask& task) {
  const int64_t vectors = task.keys.rows * HeadsOfRow(task);
  Launch<StoreHeads>(
      stream, {.blocks = (vectors + kHeadsAtATime - 1) / kHeadsAtATime, .threads = kThreads}, task);
}

void CopyBlocks(Stream stream, const CopyBlocksTask& task) {
  Launch<CopyBlock>(stream, {.blocks = task.count * task.pool.num_layers, .threads = kThreads},
                    task);
}

}  // namespace sluice::cuda::SIMT_NAMESPACE
