#include "kernels/cpu/kv_pool.h"

#include <algorithm>
#include <cstring>

namespace sluice {
namespace {

template <class T>
T Stored(float value) {
  if constexpr (sizeof(T) == sizeof(float)) {
    return value;
  } else {
    return BFloat16FromFloat(value);
  }
}

// One head of all rows of `segment`.
template <class T>
void StoreHead(MatrixView keys, MatrixView values, const AttentionSegment& segment, int layer,
               int head, const CpuKvPool& pool) {
  const int64_t head_dim = pool.spec().head_dim;
  for (int64_t i = 0; i < segment.num_rows; ++i) {
    const int64_t position = segment.first_position + i;
    const int64_t slot = position % pool.spec().block_size;
    const int32_t block = pool.BlockOf(segment, position);
    const float* key = keys.Row(segment.first_row + i) + head * head_dim;
    const float* value = values.Row(segment.first_row + i) + head * head_dim;
    T* key_column = pool.Keys<T>(layer, block, head) + slot;
    for (int64_t d = 0; d < head_dim; ++d) {
      key_column[d * pool.spec().block_size] = Stored<T>(key[d]);
    }
    std::transform(value, value + head_dim, pool.Values<T>(layer, block, head) + slot * head_dim,
                   Stored<T>);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<KvPool>> CpuKvPool::Create(const KvPoolSpec& spec) {
  SLUICE_CHECK(spec.num_layers > 0 && spec.num_blocks > 0 && spec.block_size > 0);
  SLUICE_CHECK(spec.num_kv_heads > 0 && spec.head_dim > 0);
  SLUICE_CHECK(spec.dtype == DType::kF32 || spec.dtype == DType::kBF16);
  auto pool = std::unique_ptr<CpuKvPool>(new CpuKvPool(spec, HostMemory()));
  absl::StatusOr<HostMemory> memory =
      HostMemory::Reserve(size_t{1} * spec.num_layers * spec.num_blocks * spec.num_kv_heads *
                              pool->HeadElements() * SizeOf(spec.dtype) +
                          kSlackBytes);
  if (!memory.ok()) return memory.status();
  pool->memory_ = *std::move(memory);
  return pool;
}

void StoreKv(CpuContext& context, MatrixView keys, MatrixView values, int layer, CpuKvPool& pool) {
  const KvPoolSpec& spec = pool.spec();
  SLUICE_CHECK(0 <= layer && layer < spec.num_layers);
  SLUICE_CHECK(keys.cols == int64_t{spec.num_kv_heads} * spec.head_dim && values.cols == keys.cols);
  const auto store = spec.dtype == DType::kF32 ? StoreHead<float> : StoreHead<uint16_t>;
  // By head: neighbouring positions of one head share cache lines.
  const int64_t elements_per_head = 8 * keys.rows * spec.head_dim;
  ForRowRuns(context, spec.num_kv_heads, elements_per_head, [&](int64_t begin, int64_t end) {
    for (const AttentionSegment& segment : context.step.segments()) {
      SLUICE_CHECK(segment.first_row + segment.num_rows <= keys.rows);
      for (int64_t head = begin; head < end; ++head) {
        store(keys, values, segment, layer, static_cast<int>(head), pool);
      }
    }
  });
}

void CopyBlocks(CpuContext& context, absl::Span<const KvBlockCopy> copies, CpuKvPool& pool) {
  const auto floats = static_cast<int64_t>(pool.block_bytes() / sizeof(float));
  // By layer: within one, the order of the copies matters.
  ForRowRuns(context, pool.spec().num_layers, floats * std::ssize(copies),
             [&](int64_t begin, int64_t end) {
               for (auto layer = static_cast<int>(begin); layer < end; ++layer) {
                 for (const KvBlockCopy& copy : copies) {
                   std::memmove(pool.Block(layer, copy.destination), pool.Block(layer, copy.source),
                                pool.block_bytes());
                 }
               }
             });
}

}  // namespace sluice
