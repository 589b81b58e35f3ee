// A communicator between ranks on one host, through shared memory: threads of one process,
// processes, or both. Thread-safety as in communicator.h. Not usable across fork().
//
// Waiting: a short spin, which adapts to whether spinning has paid lately and stays very short
// where there are more ranks than cores, then sleep in the kernel (futex).
//
// A peer that is gone is noticed by a waiting rank
//   at once            where the peer failed, was aborted or was destroyed (UNAVAILABLE, naming the
//                      rank and its reason);
//   within about 0.1 s where its process died, by looking at /proc (UNAVAILABLE);
//   by the deadline    otherwise, as for a process of another pid namespace, or a thread that
//   hangs.
// A failed call is told to all peers in the same way, since none of theirs can complete any more.
//
// How ranks meet: rank 0 creates the memory, which has no name in any folder, and hands it to the
// other ranks of its wiring that run as the same user (file_handover.h). No other process can reach
// it, and nothing of it is left behind, however the ranks end.
#pragma once

#include <cstddef>
#include <memory>
#include <stop_token>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kernels/communicator.h"
#include "kernels/communicator/wiring_identity.h"

namespace sluice {

struct ShmOptions {
  // Names the group on this host: 1 to 100 of [A-Za-z0-9._-]. Drawn at random, so that no other
  // process has the name before rank 0 does.
  std::string name;
  // The same on every rank, and on no rank of another group.
  WiringIdentity wiring;
  int rank = 0;
  int size = 1;  // 1 to 64
  // Bytes that a rank can be ahead of its slowest reader: 4 KiB to 1 GiB, rounded up to a power of
  // two. The same on every rank. Longer messages pass in pieces.
  std::size_t slot_bytes = std::size_t{256} << 10;
};

// Returns when all `size` ranks have joined.
//   INVALID_ARGUMENT    an option is out of range, or differs from the other ranks'
//   ABORTED             rank 0 belongs to another wiring; the message says what differs
//   ALREADY_EXISTS      this rank of the group has joined before
//   DEADLINE_EXCEEDED   a rank did not come in time; the message names it, and who was turned away
//   UNAVAILABLE         a rank gave up or died before all had joined
//   RESOURCE_EXHAUSTED  there is no memory for size * slot_bytes
//   CANCELLED           told to stop; those of its peers that are there fail with it
absl::StatusOr<std::unique_ptr<Communicator>> JoinShm(const ShmOptions& options, Deadline deadline,
                                                      const std::stop_token& stop = {});

}  // namespace sluice
