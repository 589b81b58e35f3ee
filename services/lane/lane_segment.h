// The memory of a lane as mapped into this process: one ring of bytes with one writer and one reader,
// and the bell that wakes the reader.
//
//   header | capacity() bytes
//
// The receiver creates it and offers it to the sender (protos/sluice/v1/lane.proto); the header
// says in which wiring. It has no name in any folder and ends with the processes that have it,
// however they end. Sealed at its size: a peer can neither shorten nor grow it under the other's
// feet.
//
// A peer may still write what it likes, at any time: nothing here is believed (LaneReader, LaneWriter).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kernels/communicator/sealed_memory.h"
#include "kernels/communicator/shm_word.h"
#include "kernels/communicator/wiring_identity.h"
#include "sluice/v1/lane.pb.h"

namespace sluice {

class LaneSegment {
 public:
  // Memory that can be offered or, where the system has none of that kind, that serves this process alone.
  // Pages are taken as they are written.
  static std::unique_ptr<LaneSegment> Create();

  // The memory that a peer offers in `wiring`. NOT_FOUND where it can't be reached from this
  // process, INVALID_ARGUMENT where it is no lane's, or another's; ABORTED where it was offered in
  // another wiring; the system's error where it can't be mapped.
  static absl::StatusOr<std::unique_ptr<LaneSegment>> Open(const v1::LaneOffer& offer,
                                                           const WiringIdentity& wiring);

  LaneSegment(const LaneSegment&) = delete;
  LaneSegment& operator=(const LaneSegment&) = delete;
  ~LaneSegment();

  // Offers it in `wiring`, which it belongs to from then on. The offer is valid as long as this
  // segment lives. Nothing of a segment that was opened, or that can't be offered.
  std::optional<v1::LaneOffer> Offer(const WiringIdentity& wiring) const;

  // Bytes ever written to the ring, and ever read from it, modulo 2^32.
  ShmWord& written() const { return header_->written; }
  ShmWord& read() const { return header_->read; }
  // 1 while the reader sleeps or is about to.
  ShmWord& parked() const { return header_->parked; }
  std::byte* ring() const;
  // A power of two.
  static constexpr std::uint32_t capacity() { return std::uint32_t{4} << 20; }

 private:
  struct Header {
    ShmWord written;
    ShmWord read;
    ShmWord parked;
    std::uint64_t key;
    WiringIdentity wiring;
  };

  LaneSegment(Header* header, SealedMemory file) : header_(header), file_(std::move(file)) {}

  Header* const header_;
  const SealedMemory file_;  // none where there is nothing to offer
};

}  // namespace sluice
