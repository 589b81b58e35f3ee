// Where the ranks of a stage leave their addresses for each other when they are on several hosts: a
// table on rank 0, served by its ShardService, and the client that a rank's communicator uses.
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
#include "sluice/v1/shard.grpc.pb.h"

namespace sluice {

// Thread-safe; nothing blocks.
class RendezvousTable {
 public:
  // Forgets every key that does not begin with `group`, and ends the calls that wait for one with
  // ABORTED: ranks of an older epoch no longer matter.
  void KeepOnly(const std::string& group);

  // Answers the call. ALREADY_EXISTS where the key is set.
  void Put(const std::string& key, const std::string& value, grpc::ServerUnaryReactor* call);
  // What answers a call once the key is set, with its value in `response`, or ends it where nobody
  // waits for it any more. The table outlives it.
  grpc::ServerUnaryReactor* Get(const std::string& key, v1::GetRendezvousResponse* response);

 private:
  class Waiter;
  void Forget(const std::string& key, Waiter* waiter);

  absl::Mutex mutex_;
  std::map<std::string, std::string> values_ ABSL_GUARDED_BY(mutex_);
  // Who takes a waiter from here ends its call.
  std::map<std::string, std::vector<Waiter*>> waiters_ ABSL_GUARDED_BY(mutex_);
};

// The table of a remote rank 0. Thread-safe.
class RemoteRendezvousStore final : public RendezvousStore {
 public:
  explicit RemoteRendezvousStore(const std::shared_ptr<grpc::Channel>& channel);

  absl::Status Set(const std::string& key, std::string bytes) override;
  absl::StatusOr<std::string> Get(const std::string& key, Deadline deadline,
                                  const std::stop_token& stop) override;

 private:
  const std::unique_ptr<v1::ShardService::Stub> stub_;
};

}  // namespace sluice
