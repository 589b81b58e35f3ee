#include "kernels/cpu/kv_pool.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "kernels/fp8.h"

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

// The scale of a head vector in FP8.
uint16_t ScaleOf(const float* vector, int64_t head_dim) {
  uint32_t largest = 0;
  for (int64_t d = 0; d < head_dim; ++d) {
    largest = std::max(largest, std::bit_cast<uint32_t>(vector[d]) & 0x7fffffff);
  }
  return Fp8ScaleFor(largest);
}

uint8_t Fp8Code(float element, uint16_t scale) {
  return std::isnan(FloatFromBFloat16(scale)) ? uint8_t{0}
                                              : Fp8FromFloat(element * Fp8Inverse(scale));
}

// Where slot `slot` of a head in a block lies, and elements of its keys are apart.
template <class T>
struct Slot {
  T* key;
  int64_t key_step;
  T* value;
};

template <class T>
void StoreSlot(const float* key, const float* value, int64_t head_dim, const Slot<T>& to) {
  for (int64_t d = 0; d < head_dim; ++d) to.key[d * to.key_step] = Stored<T>(key[d]);
  std::transform(value, value + head_dim, to.value, Stored<T>);
}

// The codes, and both scales.
void StoreSlot(const float* key, const float* value, int64_t head_dim, const Slot<uint8_t>& to,
               uint16_t* key_scale, uint16_t* value_scale) {
  *key_scale = ScaleOf(key, head_dim);
  *value_scale = ScaleOf(value, head_dim);
  for (int64_t d = 0; d < head_dim; ++d) {
    to.key[d * to.key_step] = Fp8Code(key[d], *key_scale);
    to.value[d] = Fp8Code(value[d], *value_scale);
  }
}

// The vector of one position of a latent pool.
template <class T>
void StoreLatentRow(const float* vector, int32_t block, int64_t slot, int layer,
                    const CpuKvPool& pool) {
  const int64_t head_dim = pool.spec().head_dim;
  T* const to = pool.Keys<T>(layer, block, 0) + slot * head_dim;
  if constexpr (sizeof(T) == 1) {
    const uint16_t scale = ScaleOf(vector, head_dim);
    pool.Scales(layer, block, 0)[slot] = scale;
    std::transform(vector, vector + head_dim, to,
                   [scale](float element) { return Fp8Code(element, scale); });
  } else {
    std::transform(vector, vector + head_dim, to, Stored<T>);
  }
}

// One head of all rows of `segment`.
template <class T>
void StoreHead(MatrixView keys, MatrixView values, const AttentionSegment& segment, int layer,
               int head, const CpuKvPool& pool) {
  const int64_t head_dim = pool.spec().head_dim, block_size = pool.spec().block_size;
  for (int64_t i = 0; i < segment.num_rows; ++i) {
    const int64_t position = segment.first_position + i;
    const int64_t slot = position % block_size;
    const int32_t block = pool.BlockOf(segment, position);
    const float* key = keys.Row(segment.first_row + i) + head * head_dim;
    const float* value = values.Row(segment.first_row + i) + head * head_dim;
    const Slot<T> to{.key = pool.Keys<T>(layer, block, head) + slot,
                     .key_step = block_size,
                     .value = pool.Values<T>(layer, block, head) + slot * head_dim};
    if constexpr (sizeof(T) == 1) {
      uint16_t* const scales = pool.Scales(layer, block, head) + slot;
      StoreSlot(key, value, head_dim, to, scales, scales + block_size);
    } else {
      StoreSlot(key, value, head_dim, to);
    }
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<KvPool>> CpuKvPool::Create(const KvPoolSpec& spec) {
  SLUICE_CHECK(spec.num_layers > 0 && spec.num_blocks > 0 && spec.block_size > 0);
  SLUICE_CHECK(spec.num_kv_heads > 0 && spec.head_dim > 0);
  SLUICE_CHECK(IsKvType(spec.dtype));
  // Scales behind an odd number of codes would lie at an odd address.
  SLUICE_CHECK(!spec.is_latent() || (spec.num_kv_heads == 1 && spec.head_dim % 2 == 0 &&
                                     spec.latent_dim <= spec.head_dim));
  auto pool = std::unique_ptr<CpuKvPool>(new CpuKvPool(spec, HostMemory()));
  absl::StatusOr<HostMemory> memory = HostMemory::Reserve(
      size_t{1} * spec.num_layers * spec.num_blocks * pool->block_bytes() + kSlackBytes);
  if (!memory.ok()) return memory.status();
  pool->memory_ = *std::move(memory);
  return pool;
}

void StoreKv(CpuContext& context, MatrixView keys, MatrixView values, int layer, CpuKvPool& pool) {
  const KvPoolSpec& spec = pool.spec();
  SLUICE_CHECK(0 <= layer && layer < spec.num_layers && !spec.is_latent());
  SLUICE_CHECK(keys.cols == int64_t{spec.num_kv_heads} * spec.head_dim && values.cols == keys.cols);
  const auto store = spec.dtype == DType::kF32    ? StoreHead<float>
                     : spec.dtype == DType::kBF16 ? StoreHead<uint16_t>
                                                  : StoreHead<uint8_t>;
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

void StoreLatent(CpuContext& context, MatrixView vectors, int layer, CpuKvPool& pool) {
  const KvPoolSpec& spec = pool.spec();
  SLUICE_CHECK(0 <= layer && layer < spec.num_layers && spec.is_latent());
  SLUICE_CHECK(vectors.cols == spec.head_dim);
  const auto store = spec.dtype == DType::kF32    ? StoreLatentRow<float>
                     : spec.dtype == DType::kBF16 ? StoreLatentRow<uint16_t>
                                                  : StoreLatentRow<uint8_t>;
  for (const AttentionSegment& segment : context.step.segments()) {
    SLUICE_CHECK(segment.first_row + segment.num_rows <= vectors.rows);
    ForRowRuns(context, segment.num_rows, 4 * vectors.cols, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t position = segment.first_position + i;
        store(vectors.Row(segment.first_row + i), pool.BlockOf(segment, position),
              position % spec.block_size, layer, pool);
      }
    });
  }
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
