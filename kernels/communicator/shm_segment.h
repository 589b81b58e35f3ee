// The shared-memory object that the ranks of one ShmCommunicator group meet in, as mapped into this
// process. Ranks that are threads of one process share one mapping.
//
//   header | one ShmRank per rank | read positions [writer][reader] | one slot of bytes per rank
//
// A rank writes only its own slot and its own words; the one exception is `parked`, which a peer
// resets to wake the rank. The object is created zeroed, and zero is a valid start for all of it,
// so no rank has to initialise anything for the others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/communicator/process_identity.h"
#include "kernels/communicator/shm_word.h"

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
  // Opens or creates the object `name` ("/..." as for shm_open), readable by this user alone.
  // INVALID_ARGUMENT where it exists with another shape, RESOURCE_EXHAUSTED where the host's shared
  // memory is full.
  static absl::StatusOr<std::shared_ptr<ShmSegment>> Open(const std::string& name, ShmShape shape);

  // Removes the name; mappings live on. Does nothing where another rank already did.
  static void Unlink(const std::string& name);

  ShmSegment(const ShmSegment&) = delete;
  ShmSegment& operator=(const ShmSegment&) = delete;
  ~ShmSegment();

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
    ShmWord shape;  // 0 until the first rank writes the encoded shape
    ShmWord given_up_by;
  };

  ShmSegment(void* base, std::size_t bytes, ShmShape shape)
      : base_(static_cast<std::byte*>(base)), bytes_(bytes), shape_(shape) {}

  static absl::StatusOr<std::shared_ptr<ShmSegment>> Map(int fd, const std::string& name,
                                                         ShmShape shape);
  static std::size_t RankOffset(ShmShape shape, int r);
  static std::size_t PositionOffset(ShmShape shape, int writer, int reader);
  static std::size_t SlotOffset(ShmShape shape, int writer);

  Header& header() const { return *reinterpret_cast<Header*>(base_); }
  absl::Status AgreeOnShape(const std::string& name) const;
  void WakeRank(int r) const;

  std::byte* const base_;
  const std::size_t bytes_;
  const ShmShape shape_;
};

}  // namespace sluice
