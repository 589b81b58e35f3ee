#include "kernels/communicator/shm_stream.h"

#include <algorithm>
#include <cstring>

#include "kernels/check.h"

namespace sluice {
namespace {

// Published at most this part of the slot at a time, so that in a long message the readers copy
// out one piece while the writer copies in the next.
constexpr std::uint32_t kPiecesPerSlot = 4;

// Calls copy(source_begin, destination_begin, count) for what [begin, begin + count) of a message
// has in common with [part_begin, part_begin + part_bytes); both beginnings are relative to those.
template <typename Copy>
void ForOverlap(std::uint64_t begin, std::uint32_t count, std::uint64_t part_begin,
                std::uint64_t part_bytes, Copy copy) {
  const std::uint64_t from = std::max(begin, part_begin);
  const std::uint64_t to = std::min(begin + count, part_begin + part_bytes);
  if (from < to) copy(from - begin, from - part_begin, static_cast<std::size_t>(to - from));
}

// The ring's bytes from `position` on: up to its end, then from its start.
template <typename Copy>
void ForRing(std::uint32_t capacity, std::uint32_t position, std::size_t count, Copy copy) {
  const std::size_t start = position & (capacity - 1);
  const std::size_t before_end = std::min<std::size_t>(count, capacity - start);
  copy(start, 0, before_end);
  if (before_end < count) copy(0, before_end, count - before_end);
}

}  // namespace

std::uint64_t ShmMessageBytes(std::uint64_t body_bytes) {
  return (sizeof(ShmMessageHeader) + body_bytes + kCacheLine - 1) / kCacheLine * kCacheLine;
}

ShmSender::ShmSender(const ShmSegment& segment, int rank)
    : segment_(segment),
      rank_(rank),
      position_(segment.rank(rank).written.Load()),
      slowest_reader_(position_) {}

void ShmSender::Start(const ShmMessageHeader& header, absl::Span<const std::byte> first,
                      absl::Span<const std::byte> second) {
  SLUICE_CHECK(done() && header.bytes == first.size() + second.size());
  header_ = header;
  pieces_ = {absl::MakeConstSpan(reinterpret_cast<const std::byte*>(&header_), sizeof(header_)),
             first, second};
  sent_ = 0;
  total_ = ShmMessageBytes(header.bytes);
}

bool ShmSender::Advance() {
  if (done() || damaged_reader_ >= 0) return false;
  const std::uint32_t count = RoomFor(total_ - sent_);
  if (count == 0) return damaged_reader_ >= 0;
  CopyIn(count);
  sent_ += count;
  position_ += count;
  segment_.rank(rank_).written.Store(position_);
  segment_.WakeReadersOf(rank_);
  return true;
}

// Looks at the readers' positions, which live on their cache lines, only when the last known room
// is too small for a full piece.
std::uint32_t ShmSender::RoomFor(std::uint64_t wanted) {
  const std::uint32_t capacity = segment_.slot_bytes();
  const auto piece =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(wanted, capacity / kPiecesPerSlot));
  if (capacity - (position_ - slowest_reader_) < piece) {
    std::uint32_t most_unread = 0;
    for (int r = 0; r < segment_.size(); ++r) {
      if (r == rank_) continue;
      const std::uint32_t unread = position_ - segment_.read_position(rank_, r).Load();
      if (unread > capacity) {
        damaged_reader_ = r;
        return 0;
      }
      most_unread = std::max(most_unread, unread);
    }
    slowest_reader_ = position_ - most_unread;
  }
  return std::min(piece, capacity - (position_ - slowest_reader_));
}

bool ShmSender::WaitsFor(int reader) const {
  if (done() || reader == rank_) return false;
  return position_ - segment_.read_position(rank_, reader).Load() == segment_.slot_bytes();
}

void ShmSender::CopyIn(std::uint32_t count) {
  std::byte* const ring = segment_.slot(rank_);
  std::uint64_t piece_begin = 0;
  for (const absl::Span<const std::byte> piece : pieces_) {
    ForOverlap(sent_, count, piece_begin, piece.size(),
               [&](std::size_t in_message, std::size_t in_piece, std::size_t n) {
                 const auto start = static_cast<std::uint32_t>(position_ + in_message);
                 ForRing(segment_.slot_bytes(), start, n,
                         [&](std::size_t in_ring, std::size_t done, std::size_t m) {
                           std::memcpy(ring + in_ring, piece.data() + in_piece + done, m);
                         });
               });
    piece_begin += piece.size();
  }
}

ShmReceiver::ShmReceiver(const ShmSegment& segment, int writer, int reader)
    : segment_(segment),
      writer_(writer),
      reader_(reader),
      position_(segment.read_position(writer, reader).Load()) {}

void ShmReceiver::Start(const ShmMessageHeader& header, std::uint64_t offset,
                        absl::Span<std::byte> destination) {
  SLUICE_CHECK(done() && offset + destination.size() <= header.bytes);
  expected_ = header;
  offset_ = offset;
  destination_ = destination;
  received_ = 0;
  total_ = ShmMessageBytes(header.bytes);
}

bool ShmReceiver::Advance() {
  if (done() || mismatched_ || damaged_) return false;
  const std::uint32_t unread = segment_.rank(writer_).written.Load() - position_;
  if (unread > segment_.slot_bytes()) {
    damaged_ = true;
    return true;
  }
  const auto count =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(unread, total_ - received_));
  if (count == 0) return false;
  CopyOut(count);
  received_ += count;
  position_ += count;
  if (received_ >= sizeof(ShmMessageHeader) && received_header_ != expected_) {
    mismatched_ = true;
    return true;
  }
  segment_.read_position(writer_, reader_).Store(position_);
  segment_.WakeWriter(writer_);
  return true;
}

void ShmReceiver::CopyOut(std::uint32_t count) {
  const std::byte* const ring = segment_.slot(writer_);
  const auto copy_to = [&](std::byte* destination, std::uint64_t part_begin,
                           std::uint64_t part_bytes) {
    ForOverlap(received_, count, part_begin, part_bytes,
               [&](std::size_t in_message, std::size_t in_part, std::size_t n) {
                 const auto start = static_cast<std::uint32_t>(position_ + in_message);
                 ForRing(segment_.slot_bytes(), start, n,
                         [&](std::size_t in_ring, std::size_t done, std::size_t m) {
                           std::memcpy(destination + in_part + done, ring + in_ring, m);
                         });
               });
  };
  copy_to(reinterpret_cast<std::byte*>(&received_header_), 0, sizeof(ShmMessageHeader));
  copy_to(destination_.data(), sizeof(ShmMessageHeader) + offset_, destination_.size());
}

}  // namespace sluice
