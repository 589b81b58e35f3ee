// What communicators between several ranks have in common: how calls are checked, what a rank does
// of them by itself, and that the first failure holds. How bytes get from rank to rank is theirs.
#pragma once

#include <mutex>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "kernels/communicator.h"
#include "kernels/communicator/wiring_identity.h"

namespace sluice {

class PeerCommunicator : public Communicator {
 public:
  int rank() const final { return rank_; }
  int size() const final { return size_; }
  const WiringIdentity& wiring() const final { return wiring_; }
  absl::Status Broadcast(absl::Span<std::byte> data, int root, Deadline deadline) final;
  absl::Status AllGather(absl::Span<const std::byte> sent, absl::Span<std::byte> received,
                         Deadline deadline) final;
  absl::Status AllToAll(absl::Span<const std::byte> sent, absl::Span<std::byte> received,
                        Deadline deadline) final;
  void Abort(absl::Status reason) final;

 protected:
  PeerCommunicator(std::string group, const WiringIdentity& wiring, int rank, int size);

  // The calls between two or more ranks, of at least a byte. What a rank sends itself is in place.
  virtual absl::Status BroadcastAmongPeers(absl::Span<std::byte> data, int root,
                                           Deadline deadline) = 0;
  virtual absl::Status GatherFromPeers(absl::Span<const std::byte> sent,
                                       absl::Span<std::byte> received, Deadline deadline) = 0;
  virtual absl::Status ExchangeWithPeers(absl::Span<const std::byte> sent,
                                         absl::Span<std::byte> received, Deadline deadline) = 0;
  // Lets peers notice that this rank has failed with `status`. Called once, by any thread.
  virtual void LeavePeers(const absl::Status& status) = 0;

  // The failure that holds, or OK; asked before each call.
  virtual absl::Status Failure();
  // Makes `status` this rank's failure unless it has failed already. Returns the failure that holds.
  absl::Status Fail(const absl::Status& status);

  // Such as "rank 1 of 4 in 'stage-0', joining: no answer": the message of a status.
  absl::Status WithContext(const absl::Status& status, absl::string_view doing) const;

 private:
  const std::string group_;
  const WiringIdentity wiring_;
  const int rank_;
  const int size_;

  std::mutex mutex_;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sluice
