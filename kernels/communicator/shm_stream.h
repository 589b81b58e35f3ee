// One message through one rank's slot: the slot is a ring of bytes with one writer and many
// readers, each of which sees every byte. Messages longer than the slot flow through it in pieces.
//
// Who may touch which byte follows from two counters. The writer copies bytes in, then stores
// `written`; a reader that loads that value may copy them out. The reader then stores its
// `read_position`; the writer that loads it may overwrite them. Each store releases and each load
// acquires (see shm_word.h), so the copies on both sides are ordered and need no lock.
//
// Both classes belong to one rank and its thread. They start at the
// positions found in the segment, with nothing unread, and keep their place between messages.
//
// A peer's counters are its word alone: one that cannot be, further ahead or behind than a slot is
// long, stops the stream for good (damaged()), and touches no byte outside the slot.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "kernels/communicator/shm_segment.h"

namespace sluice {

// Precedes every message, so that ranks whose calls differ learn it instead of mixing up bytes.
struct ShmMessageHeader {
  std::uint32_t operation = 0;
  std::uint32_t root = 0;
  std::uint64_t bytes = 0;  // of the body

  bool operator==(const ShmMessageHeader&) const = default;
};

// Bytes a message takes in the slot: header, body, and padding that starts the next message on a
// cache line of its own.
std::uint64_t ShmMessageBytes(std::uint64_t body_bytes);

class ShmSender {
 public:
  ShmSender(const ShmSegment& segment, int rank);

  // The body is `first` followed by `second`; both must live until done().
  void Start(const ShmMessageHeader& header, absl::Span<const std::byte> first,
             absl::Span<const std::byte> second);
  // Copies what fits now; returns whether that was anything. A reader's counter that cannot be is
  // news too, after which nothing more is sent.
  bool Advance();
  bool done() const { return sent_ == total_; }
  // Whether that reader holds up the message.
  bool WaitsFor(int reader) const;
  // The first reader whose counter cannot be, or -1.
  int damaged_reader() const { return damaged_reader_; }

 private:
  std::uint32_t RoomFor(std::uint64_t wanted);
  void CopyIn(std::uint32_t count);

  const ShmSegment& segment_;
  const int rank_;
  std::uint32_t position_;        // as published in `written`
  std::uint32_t slowest_reader_;  // a lower bound of what all readers have consumed

  ShmMessageHeader header_;
  std::array<absl::Span<const std::byte>, 3> pieces_;  // header, first, second
  std::uint64_t sent_ = 0;
  std::uint64_t total_ = 0;
  int damaged_reader_ = -1;
};

class ShmReceiver {
 public:
  ShmReceiver(const ShmSegment& segment, int writer, int reader);

  // Expects a message with this header, and of its body wants the part that begins at `offset` and
  // fills `destination`.
  void Start(const ShmMessageHeader& header, std::uint64_t offset,
             absl::Span<std::byte> destination);
  // Takes what is there now; returns whether that was anything. A mismatch, or a counter that
  // cannot be, is news too, after which nothing more is taken.
  bool Advance();
  bool done() const { return received_ == total_; }
  bool mismatched() const { return mismatched_; }
  // Whether the writer's counter cannot be.
  bool damaged() const { return damaged_; }
  const ShmMessageHeader& received_header() const { return received_header_; }

 private:
  void CopyOut(std::uint32_t count);

  const ShmSegment& segment_;
  const int writer_;
  const int reader_;
  std::uint32_t position_;  // as published in `read_position`

  ShmMessageHeader expected_;
  ShmMessageHeader received_header_;
  std::uint64_t offset_ = 0;
  absl::Span<std::byte> destination_;
  std::uint64_t received_ = 0;
  std::uint64_t total_ = 0;
  bool mismatched_ = false;
  bool damaged_ = false;
};

}  // namespace sluice
