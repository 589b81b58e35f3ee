// How ranks on one GPU exchange bytes: each has memory that the others' processes can read, and
// flags in host memory that all see; streams wait for flags, no kernel spins and no host takes
// part. A protocol over an abstract stream, so that it is tested on the host in any order of
// events.
//
// In a call
//
//   rank r                                              its flags
//   1  waits until every peer has read its slot         read[p], made 0
//   2  copies what it sends into its slot
//   3  tells every peer that it is there                filled[r] of peer p = 1
//   4  waits for every peer's                           filled[p], made 0
//   5  copies its part out of every slot
//   6  tells every peer that it has read                read[r] of peer p = 1
//
// `read` begins as 1. A flag is made 0 by the rank that waits for it, before what allows its peer
// to set it again (3 follows 1, 6 follows 4), so no setting is lost. All calls enqueue the same
// operations on the same addresses, so that a step can be recorded.
//
// A peer that has died sets nothing: the stream would wait forever. So the flags that a rank waits
// for are its host's to set as well: Release() lets everything through, with any bytes, after which
// the group is of no more use.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "kernels/rank_exchange.h"

namespace sluice {

inline constexpr int kMostPeerRanks = 8;

// In a line of its own. Written by streams and hosts of several processes.
struct alignas(64) PeerFlag {
  std::atomic<uint32_t> value;
};

// What one rank waits for, in memory that all ranks share.
struct PeerFlags {
  PeerFlag filled[kMostPeerRanks];
  PeerFlag read[kMostPeerRanks];
};

// The stream of one rank. What is enqueued is done in this order.
class PeerStream {
 public:
  virtual ~PeerStream() = default;

  // Both of memory that the GPU reaches, not overlapping.
  virtual absl::Status Copy(const void* from, void* to, size_t bytes) = 0;
  // Waits until the flag is 1, then makes it 0. What other streams did before setting it is seen
  // behind it.
  virtual absl::Status Await(PeerFlag& flag) = 0;
  // Makes the flag 1, once all that was enqueued before is done and seen by whoever awaits it.
  virtual absl::Status Set(PeerFlag& flag) = 0;
};

struct PeerPlaces {
  int rank = 0;
  size_t slot_bytes = 0;
  // By rank; this rank's own, and where the others' are seen.
  std::vector<std::byte*> slots;
  // By rank.
  std::vector<PeerFlags*> flags;
};

class PeerExchange final : public RankExchange {
 public:
  // Borrows the stream and all memory.
  PeerExchange(PeerPlaces places, PeerStream& stream);

  // As flags are before anybody has joined. Called once for each rank, before any exchange.
  static void Initialise(PeerFlags& flags);

  // RESOURCE_EXHAUSTED where `sent` is larger than a slot; otherwise the stream's status.
  absl::Status AllGather(absl::Span<const std::byte> sent, absl::Span<std::byte> received) override;
  absl::Status AllToAll(absl::Span<const std::byte> sent, absl::Span<std::byte> received) override;

  // Sets all that this rank waits for. Again and again until its stream is empty, since what it
  // lets through makes flags 0. From any thread.
  void Release();

 private:
  int size() const { return static_cast<int>(places_.slots.size()); }
  // Steps 1 to 6; `part_bytes` of every slot, from `part_offset` on.
  absl::Status Exchange(absl::Span<const std::byte> sent, size_t part_offset, size_t part_bytes,
                        absl::Span<std::byte> received);

  const PeerPlaces places_;
  PeerStream& stream_;
};

}  // namespace sluice
