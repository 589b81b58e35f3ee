// The shared memory of the ranks of one ShmCommunicator group, as mapped into this process. Ranks
// that are threads of one process share one mapping.
//
//   header | one ShmRank per rank | read positions [writer][reader] | one slot of bytes per rank
//
// The memory has no name in any folder: rank 0 creates it, sealed at its size, and hands its file
// to the other ranks (file_handover.h). The header says which wiring it belongs to. A rank writes
// only its own slot and its own words; the one exception is `parked`, which a peer resets to wake
// the rank. Zero is a valid start for all of it but the header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/communicator/file_descriptor.h"
#include "kernels/communicator/process_identity.h"
#include "kernels/communicator/sealed_memory.h"
#include "kernels/communicator/shm_word.h"
#include "kernels/communicator/wiring_identity.h"

namespace sluice {

// Values of ShmRank::state.
inline constexpr std::uint32_t kRankAbsent = 0;
inline constexpr std::uint32_t kRankJoining = 1;
inline constexpr std::uint32_t kRankJoined = 2;
inline constexpr std::uint32_t kRankLeft = 3;

// Values of ShmRank::parked; in between, 1 + the only rank whose bytes can end the sleep.
inline constexpr std::uint32_t kAwake = 0;
inline constexpr std::uint32_t kAwaitsAny = 0xffffffff;

struct ShmRank {
  ShmWord state;
  ShmWord parked;
  ShmWord written;                              // bytes ever written to the slot, modulo 2^32
  alignas(kCacheLine) ProcessIdentity process;  // written before `state` becomes kRankJoined
  char give_up_reason[256];                     // written before `given_up_by` names this rank
};

struct ShmShape {
  int size = 0;                  // ranks, 1 to kMaxShmRanks
  std::uint32_t slot_bytes = 0;  // per rank, a power of two of at least one cache line
};

inline constexpr int kMaxShmRanks = 64;

class ShmSegment {
 public:
  // What the file's contents look like for ranks of this shape, as a number that ranks compare; and
  // that number in words.
  static std::uint64_t LayoutOf(ShmShape shape);
  static std::string DescribeLayout(std::uint64_t layout);

  // New memory of a wiring. Its pages are taken now. RESOURCE_EXHAUSTED where the host, or the
  // container's limit, has no room for it.
  static absl::StatusOr<std::shared_ptr<ShmSegment>> Create(ShmShape shape,
                                                            const WiringIdentity& wiring);
  // The memory that rank 0 handed over. INVALID_ARGUMENT where its size may change or is not that
  // of `shape`; ABORTED where it belongs to another wiring.
  static absl::StatusOr<std::shared_ptr<ShmSegment>> Open(FileDescriptor file, ShmShape shape,
                                                          const WiringIdentity& wiring);

  ShmSegment(const ShmSegment&) = delete;
  ShmSegment& operator=(const ShmSegment&) = delete;
  ~ShmSegment();

  // Of memory that this process created, to be handed over; -1 of memory that was opened.
  int file() const { return file_.fd(); }

  int size() const { return shape_.size; }
  std::uint32_t slot_bytes() const { return shape_.slot_bytes; }

  // 0, or 1 + the rank that first gave the group up.
  ShmWord& given_up_by() const { return header().given_up_by; }
  ShmRank& rank(int r) const;
  // Bytes of `writer`'s slot that `reader` has ever consumed, modulo 2^32.
  ShmWord& read_position(int writer, int reader) const;
  std::byte* slot(int writer) const;

  // Wake those that sleep for what just happened: `writer` has published bytes, a reader has made
  // room in `writer`'s slot, something concerns everybody. A wake-up may be spurious.
  void WakeReadersOf(int writer) const;
  void WakeWriter(int writer) const;
  void WakeAll() const;

 private:
  struct Header {
    ShmWord given_up_by;
    // Written before the file is handed over, and constant from then on.
    alignas(kCacheLine) WiringIdentity wiring;
    std::uint64_t layout;
  };

  ShmSegment(void* base, std::size_t bytes, ShmShape shape, SealedMemory file)
      : base_(static_cast<std::byte*>(base)),
        bytes_(bytes),
        shape_(shape),
        file_(std::move(file)) {}

  // Maps the file, which the segment keeps where `keeps_file`.
  static absl::StatusOr<std::shared_ptr<ShmSegment>> Map(SealedMemory file, ShmShape shape,
                                                         bool keeps_file);
  static std::size_t RankOffset(ShmShape shape, int r);
  static std::size_t PositionOffset(ShmShape shape, int writer, int reader);
  static std::size_t SlotOffset(ShmShape shape, int writer);

  Header& header() const { return *reinterpret_cast<Header*>(base_); }
  void WakeRank(int r) const;

  std::byte* const base_;
  const std::size_t bytes_;
  const ShmShape shape_;
  const SealedMemory file_;  // none where it was opened
};

}  // namespace sluice
