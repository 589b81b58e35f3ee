// Allocation of bytes in a row ring (RowRingOffer in protos/sluice/v1/stage.proto): those
// that the receiver has not consumed yet are in use. Positions count bytes from the beginning of
// the epoch. Pure; not thread-safe.
#pragma once

#include <cstdint>
#include <optional>

namespace sluice {

inline constexpr uint64_t kRingAlignment = 256;

// Of the ring, for rows of so many bytes.
constexpr uint64_t RingBytes(uint64_t bytes) {
  return (bytes + kRingAlignment - 1) / kRingAlignment * kRingAlignment;
}

class RingSpace {
 public:
  // A multiple of kRingAlignment.
  explicit RingSpace(uint64_t capacity) : capacity_(capacity) {}

  // The position of `bytes` bytes that lie together, which are the sender's to fill from now on.
  // Nothing, and nothing done, where there is no room for them now. bytes > 0.
  std::optional<uint64_t> Reserve(uint64_t bytes);

  // The receiver has taken everything before `position`. False where it says what can't be: more
  // than was ever reserved.
  bool Take(uint64_t position);

  uint64_t OffsetOf(uint64_t position) const { return position % capacity_; }
  uint64_t capacity() const { return capacity_; }

 private:
  const uint64_t capacity_;
  uint64_t reserved_ = 0;  // position
  uint64_t taken_ = 0;     // position
};

}  // namespace sluice
