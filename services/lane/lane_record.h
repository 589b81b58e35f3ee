// Layout of messages in a lane's ring: length, bytes, padding to the next record. The bytes of a
// record may wrap around the end of the ring; its length does not. Pure functions.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "services/lane/lane_segment.h"

namespace sluice {

using LaneRecordLength = std::uint64_t;

inline constexpr std::size_t kMostLaneMessageBytes =
    LaneSegment::capacity() - sizeof(LaneRecordLength);

// Of a message of so many bytes.
constexpr std::uint64_t LaneRecordBytes(std::uint64_t message_bytes) {
  constexpr std::uint64_t kAlignment = sizeof(LaneRecordLength);
  return sizeof(LaneRecordLength) + (message_bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// Where a position, counted modulo 2^32, lies in the ring.
constexpr std::size_t LaneRingOffset(std::uint32_t position) {
  return position & (LaneSegment::capacity() - 1);
}

inline void CopyToRing(std::byte* ring, std::uint32_t position, const void* source,
                       std::size_t bytes) {
  const std::size_t start = LaneRingOffset(position);
  const std::size_t before_end = std::min<std::size_t>(bytes, LaneSegment::capacity() - start);
  std::memcpy(ring + start, source, before_end);
  std::memcpy(ring, static_cast<const char*>(source) + before_end, bytes - before_end);
}

inline void CopyFromRing(const std::byte* ring, std::uint32_t position, void* destination,
                         std::size_t bytes) {
  const std::size_t start = LaneRingOffset(position);
  const std::size_t before_end = std::min<std::size_t>(bytes, LaneSegment::capacity() - start);
  std::memcpy(destination, ring + start, before_end);
  std::memcpy(static_cast<char*>(destination) + before_end, ring, bytes - before_end);
}

}  // namespace sluice
