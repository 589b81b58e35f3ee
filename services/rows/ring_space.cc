#include "services/rows/ring_space.h"

#include <algorithm>

namespace sluice {

std::optional<uint64_t> RingSpace::Reserve(uint64_t bytes) {
  if (bytes > capacity_) return std::nullopt;
  const uint64_t size = RingBytes(bytes);
  const uint64_t offset = OffsetOf(reserved_);
  // What is left before the ring's end stays empty where the rows don't fit there.
  const uint64_t begin = offset + size <= capacity_ ? reserved_ : reserved_ - offset + capacity_;
  // In an empty ring nobody reads what is skipped.
  const uint64_t held_from = taken_ == reserved_ ? begin : taken_;
  if (begin + size - held_from > capacity_) return std::nullopt;
  taken_ = held_from;
  reserved_ = begin + size;
  return begin;
}

bool RingSpace::Take(uint64_t position) {
  if (position > reserved_) return false;
  taken_ = std::max(taken_, position);
  return true;
}

}  // namespace sluice
