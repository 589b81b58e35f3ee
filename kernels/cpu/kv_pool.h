// The paged keys and values of the CPU backend.
//
// For every layer, block and KV head the pool holds the keys transposed, [D, block_size], and then
// the values, [block_size, D]: attention finds neighbouring positions of a key element, and
// neighbouring elements of a value, side by side. In FP8 the scales of both lie behind them,
// [block_size] each. In the latent layout a block is the vectors of its positions, [block_size, D],
// and in FP8 their scales [block_size]. Nothing is padded, so that a block takes what a budget
// counts. A vector that begins within a block may therefore reach past its end: into memory of the
// pool whatever block it is, and what it finds there counts for nothing. Memory is only reserved.
//
// Not thread-safe; concurrent reads are fine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/backend.h"
#include "kernels/check.h"
#include "kernels/cpu/context.h"
#include "kernels/cpu/memory.h"

namespace sluice {

class CpuKvPool final : public KvPool {
 public:
  // RESOURCE_EXHAUSTED where even the address space lacks room.
  static absl::StatusOr<std::unique_ptr<KvPool>> Create(const KvPoolSpec& spec);

  size_t size_bytes() const override { return memory_.size_bytes() - kSlackBytes; }
  const KvPoolSpec& spec() const { return spec_; }
  // Bytes of one block in one layer, keys and values of all heads side by side.
  size_t block_bytes() const { return spec_.num_kv_heads * HeadBytes(); }

  // The block that holds `position` of a segment.
  int32_t BlockOf(const AttentionSegment& segment, int64_t position) const {
    const int64_t index = position / spec_.block_size;
    SLUICE_CHECK(index < static_cast<int64_t>(segment.block_table.size()));
    const int32_t block = segment.block_table[index];
    SLUICE_CHECK(0 <= block && block < spec_.num_blocks);
    return block;
  }

  // The block_bytes() of `block` in `layer`.
  std::byte* Block(int layer, int32_t block) const {
    SLUICE_CHECK(0 <= layer && layer < spec_.num_layers);
    SLUICE_CHECK(0 <= block && block < spec_.num_blocks);
    return reinterpret_cast<std::byte*>(memory_.data()) +
           (size_t{1} * layer * spec_.num_blocks + block) * block_bytes();
  }

  // [D, block_size] and [block_size, D]; in the latent layout both are [block_size, D]. T is float
  // or, for BF16, uint16_t, for FP8 uint8_t.
  template <class T>
  T* Keys(int layer, int32_t block, int head) const {
    const size_t index = (size_t{1} * layer * spec_.num_blocks + block) * spec_.num_kv_heads + head;
    return reinterpret_cast<T*>(reinterpret_cast<std::byte*>(memory_.data()) + index * HeadBytes());
  }
  template <class T>
  T* Values(int layer, int32_t block, int head) const {
    T* const keys = Keys<T>(layer, block, head);
    return spec_.is_latent() ? keys : keys + int64_t{1} * spec_.head_dim * spec_.block_size;
  }
  // FP8: the BF16 scales of the keys, then of the values; in the latent layout those of the
  // vectors.
  uint16_t* Scales(int layer, int32_t block, int head) const {
    auto* const codes = Values<uint8_t>(layer, block, head);
    return reinterpret_cast<uint16_t*>(codes + int64_t{1} * spec_.head_dim * spec_.block_size);
  }

 private:
  // Behind the last block, for a vector that begins there.
  static constexpr size_t kSlackBytes = 64;

  CpuKvPool(const KvPoolSpec& spec, HostMemory memory) : spec_(spec), memory_(std::move(memory)) {}

  size_t HeadBytes() const {
    return spec_.block_size * spec_.bytes_per_position() / spec_.num_kv_heads;
  }

  const KvPoolSpec spec_;
  HostMemory memory_;
};

// Writes keys and values [T, Nkv * D] F32 of the step's positions into their slots of `layer`.
void StoreKv(CpuContext& context, MatrixView keys, MatrixView values, int layer, CpuKvPool& pool);

// Writes vectors [T, D] F32 of the step's positions into their slots of `layer` of a latent pool.
void StoreLatent(CpuContext& context, MatrixView vectors, int layer, CpuKvPool& pool);

// Ops::CopyBlocks.
void CopyBlocks(CpuContext& context, absl::Span<const KvBlockCopy> copies, CpuKvPool& pool);

}  // namespace sluice
