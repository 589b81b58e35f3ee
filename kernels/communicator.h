// Moves bytes between the tensor-parallel ranks of one stage. It never adds: sums are the kernels'
// business, in an order that does not depend on the number of ranks (Ops::TreeAdd).
//
//   shm    ranks on one host, as threads or processes
//   tcp    ranks on several hosts, over TLS or in plaintext
//
// A communicator belongs to one rank and is driven by one thread; Abort() may come from any thread.
// All ranks make the same calls in the same order with the same sizes. A call that fails (a peer is
// gone, the deadline passed, Abort) leaves the communicator broken: every later call returns the
// first failure. A broken one is replaced, together with its peers, under a new epoch.
#pragma once

#include <cstddef>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/deadline.h"

namespace sluice {

struct WiringIdentity;

class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  // The wiring that every rank of this group has proven to belong to.
  virtual const WiringIdentity& wiring() const = 0;

  // `data` of `root` replaces `data` of everyone. An idle rank may wait with InfiniteFuture().
  // DEADLINE_EXCEEDED where a peer did not come in time, or the reason of Abort().
  virtual absl::Status Broadcast(absl::Span<std::byte> data, int root, Deadline deadline) = 0;

  // `received` = the `sent` of rank 0, 1, ... in order: size() times as long.
  virtual absl::Status AllGather(absl::Span<const std::byte> sent, absl::Span<std::byte> received,
                                 Deadline deadline) = 0;

  // Part r of `sent` goes to rank r; part r of `received` came from rank r. Both are size() equal
  // parts.
  virtual absl::Status AllToAll(absl::Span<const std::byte> sent, absl::Span<std::byte> received,
                                Deadline deadline) = 0;

  // Looks, without waiting, whether a call could still succeed: the failure of this communicator, or
  // UNAVAILABLE where a peer has certainly gone. For ranks that wait for each other elsewhere, as on
  // a GPU. Takes up to some tens of microseconds for each peer. The rank's thread.
  virtual absl::Status Check() = 0;

  // Wakes and fails this rank's current and later calls with `reason`; peers notice by their
  // deadline or sooner. Thread-safe.
  virtual void Abort(absl::Status reason) = 0;
};

}  // namespace sluice
