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
  LetKernelsBehindBegin();
  const auto heads = static_cast<unsigned>(HeadsOfRow(task));
  const auto index = static_cast<unsigned>(Block()) * kHeadsAtATime + Thread() / kWarpSize;
  const bool has_vector = index < task.keys.rows * heads;
  HeadVector vector(task, has_vector ? index / heads : 0, static_cast<int>(index % heads));
  WaitForKernelsBefore();
  if (has_vector) vector.Run();
}

// A block of threads copies bytes, in as large pieces as all addresses allow.
template <class T>
SIMT_DEVICE void CopyAs(const std::byte* from, std::byte* to, int64_t bytes) {
  const T* const source = reinterpret_cast<const T*>(from);
  T* const destination = reinterpret_cast<T*>(to);
  const int64_t count = bytes / static_cast<int64_t>(sizeof(T));
  for (int64_t i = Thread(); i < count; i += kThreads) destination[i] = source[i];
}
SIMT_DEVICE void CopyBytes(const std::byte* from, std::byte* to, int64_t bytes) {
  if (bytes % 16 == 0) return CopyAs<Words>(from, to, bytes);
  CopyAs<char>(from, to, bytes);
}

// A block of threads copies a block of one layer: keys, values and their scales.
SIMT_KERNEL(kThreads, 8) CopyBlock(SIMT_TASK CopyBlocksTask task) {
  WaitForKernelsBefore();
  const KvLayout& pool = task.pool;
  const BlockCopy copy = task.copies[Block() / pool.num_layers];
  const int64_t layer = Block() % pool.num_layers * pool.num_blocks;
  const auto copy_part = [&](int64_t begin, int64_t bytes) {
    std::byte* const part = pool.data + begin;
    CopyBytes(part + (layer + copy.source) * bytes, part + (layer + copy.destination) * bytes,
              bytes);
  };
  copy_part(0, pool.BlockVectors() * pool.VectorBytes());
  copy_part(pool.values_begin, pool.BlockVectors() * pool.VectorBytes());
  if (pool.dtype != DType::kF8E4M3) return;
  const auto* const words = reinterpret_cast<const uint32_t*>(pool.data + pool.scales_begin);
  auto* const to = reinterpret_cast<uint32_t*>(pool.data + pool.scales_begin);
  for (int64_t i = Thread(); i < pool.BlockVectors(); i += kThreads) {
    to[(layer + copy.destination) * pool.BlockVectors() + i] =
        words[(layer + copy.source) * pool.BlockVectors() + i];
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
