// Keys and values of the reference backend: one float per element, in the order a reader expects.
// In the latent layout values are where keys are. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/backend.h"
#include "kernels/check.h"

namespace sluice {

class ReferenceKvPool final : public KvPool {
 public:
  explicit ReferenceKvPool(const KvPoolSpec& spec)
      : spec_(spec), elements_(Parts() * spec.num_layers * spec.num_blocks * BlockElements()) {}

  size_t size_bytes() const override { return elements_.size() * sizeof(float); }
  const KvPoolSpec& spec() const { return spec_; }

  // Where the head_dim elements of one position lie, which `segment` finds through its block table.
  size_t KeyIndex(const AttentionSegment& segment, int64_t position, int layer, int head) const {
    const int64_t index = position / spec_.block_size;
    SLUICE_CHECK(index < static_cast<int64_t>(segment.block_table.size()));
    const int32_t block = segment.block_table[index];
    SLUICE_CHECK(0 <= block && block < spec_.num_blocks);
    SLUICE_CHECK(0 <= layer && layer < spec_.num_layers);
    const size_t slot = position % spec_.block_size;
    return (size_t{1} * layer * spec_.num_blocks + block) * BlockElements() +
           (slot * spec_.num_kv_heads + head) * spec_.head_dim;
  }
  size_t ValueIndex(const AttentionSegment& segment, int64_t position, int layer, int head) const {
    const size_t key = KeyIndex(segment, position, layer, head);
    return spec_.is_latent() ? key : key + elements_.size() / 2;
  }

  // Keys and values of all layers.
  void CopyBlock(const KvBlockCopy& copy) {
    SLUICE_CHECK(0 <= copy.source && copy.source < spec_.num_blocks);
    SLUICE_CHECK(0 <= copy.destination && copy.destination < spec_.num_blocks);
    // Keys by layer, values by layer.
    for (size_t part = 0; part < Parts() * spec_.num_layers; ++part) {
      const size_t first = part * spec_.num_blocks;
      const float* source = At((first + copy.source) * BlockElements());
      std::copy(source, source + BlockElements(), At((first + copy.destination) * BlockElements()));
    }
  }

  float* At(size_t index) { return elements_.data() + index; }
  const float* At(size_t index) const { return elements_.data() + index; }

 private:
  size_t Parts() const { return spec_.is_latent() ? 1 : 2; }
  size_t BlockElements() const {
    return size_t{1} * spec_.block_size * spec_.num_kv_heads * spec_.head_dim;
  }

  const KvPoolSpec spec_;
  std::vector<float> elements_;  // all keys, then all values
};

}  // namespace sluice
