#include "simt.h"

// After simt.h.
#include "kernels/cuda/kernels/elements.h"
#include "kernels/cuda/kernels/launchers.h"

namespace sluice::cuda::SIMT_NAMESPACE {
namespace {

constexpr int kThreads = 128;

// A block stores a row's keys and values.
SIMT_KERNEL(kThreads, 8) StoreRow(SIMT_TASK StoreKvTask task) {
  WaitForKernelsBefore();
  const KvLayout& pool = task.pool;
  const RowPlace place = task.rows[Block()];
  if (place.table_begin < 0) return;
  const int64_t block = task.tables[place.table_begin + place.position / pool.block_size];
  const int slot = place.position % pool.block_size;
  const auto width = static_cast<int>(task.keys.cols);
  for (int i = Thread(); i < 2 * width; i += kThreads) {
    const bool is_value = i >= width;
    const int col = is_value ? i - width : i;
    const float element = RowOf(is_value ? task.values : task.keys, Block())[col];
    const int64_t index =
        pool.Index(task.layer, block, is_value, col / pool.head_dim, slot) + col % pool.head_dim;
    if (is_value && !IsFinite(element)) *pool.has_nonfinite = 1;
    if (pool.dtype == DType::kF32) {
      reinterpret_cast<float*>(pool.data)[index] = element;
    } else {
      reinterpret_cast<uint16_t*>(pool.data)[index] = Rounded(element);
      // A finite number may round to infinity.
      if (is_value && !IsFinite(Widened(Rounded(element)))) *pool.has_nonfinite = 1;
    }
  }
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
  Launch<StoreRow>(stream, {.blocks = task.keys.rows, .threads = kThreads}, task);
}

void CopyBlocks(Stream stream, const CopyBlocksTask& task) {
  Launch<CopyBlock>(stream, {.blocks = task.count * task.pool.num_layers, .threads = kThreads},
                    task);
}

}  // namespace sluice::cuda::SIMT_NAMESPACE
