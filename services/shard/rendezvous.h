// Address exchange between the ranks of a stage on several hosts: a table on rank 0, served by its
// RendezvousService, and the client that a rank's communicator uses. Each wiring has keys of its own.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/support/server_callback.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "kernels/communicator/rendezvous_store.h"
#include "kernels/communicator/wiring_identity.h"
#include "sluice/v1/shard.grpc.pb.h"

namespace sluice {

// Thread-safe; nothing blocks.
class RendezvousTable {
 public:
  // Of values of wirings that this rank does not belong to yet, and of calls that wait for a value.
  static constexpr size_t kMostWaiting = 256;
  static constexpr size_t kMostValueBytes = 4096;

  // The wiring that this rank belongs to from now on, unless it knows of a newer one. Forgets the
  // values of all others, and ends the calls that wait for one of an older wiring, or of this epoch
  // but another wiring, with ABORTED.
  void KeepOnly(const WiringIdentity& wiring);

  // Answers the call.
  //   ALREADY_EXISTS      the key is set
  //   ABORTED             the request is of another wiring that is not newer than this rank's
  //   INVALID_ARGUMENT    it names no wiring, or its value is too long
  //   RESOURCE_EXHAUSTED  too many are set
  void Put(const v1::PutRendezvousRequest& request, grpc::ServerUnaryReactor* call);
  // Returns what answers a call once the key is set, with its value in `response`, or ends it with
  // a status as above. The table outlives it.
  grpc::ServerUnaryReactor* Get(const v1::GetRendezvousRequest& request,
                                v1::GetRendezvousResponse* response);

 private:
  class Waiter;
  // A key of one wiring. Ranks may come before rank 0 is opened under their epoch.
  struct Key {
    WiringIdentity wiring;
    std::string name;
    bool operator<(const Key& other) const;
  };

  // OK for this rank's wiring and newer ones.
  absl::Status CheckAwaited(const WiringIdentity& wiring) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Store(const v1::PutRendezvousRequest& request, std::vector<Waiter*>& waiters);
  void Forget(const Key& key, Waiter* waiter);

  absl::Mutex mutex_;
  WiringIdentity wiring_ ABSL_GUARDED_BY(mutex_);
  std::map<Key, std::string> values_ ABSL_GUARDED_BY(mutex_);
  // Whoever takes a waiter from here ends its call.
  std::map<Key, std::vector<Waiter*>> waiters_ ABSL_GUARDED_BY(mutex_);
  size_t num_waiters_ ABSL_GUARDED_BY(mutex_) = 0;
};

// The table of a remote rank 0, which has to belong to the same wiring. Nothing is set after `deadline`:
// DEADLINE_EXCEEDED. Thread-safe.
class RemoteRendezvousStore final : public RendezvousStore {
 public:
  RemoteRendezvousStore(const std::shared_ptr<grpc::Channel>& channel, const WiringIdentity& wiring,
                        Deadline deadline);

  absl::Status Set(const std::string& key, std::string bytes) override;
  absl::StatusOr<std::string> Get(const std::string& key, Deadline deadline,
                                  const std::stop_token& stop) override;

 private:
  const std::unique_ptr<v1::RendezvousService::Stub> stub_;
  const WiringIdentity wiring_;
  const Deadline deadline_;
};

}  // namespace sluice
