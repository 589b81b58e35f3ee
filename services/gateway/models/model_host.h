// The host of several models (model_host.proto), as callbacks on the caller's loop. Thread-safe.
#pragma once

#include <grpcpp/channel.h>

#include <functional>
#include <memory>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "services/gateway/backend/backend.h"
#include "sluice/v1/model_host.grpc.pb.h"

namespace sluice::gateway {

// Keeps a model from falling asleep, for as long as it lives.
class ModelUse {
 public:
  virtual ~ModelUse() = default;
};

class ModelHost {
 public:
  explicit ModelHost(const std::shared_ptr<grpc::Channel>& channel);
  ModelHost(const ModelHost&) = delete;
  ModelHost& operator=(const ModelHost&) = delete;
  // REQUIRES: Shutdown() was called, or no call was made but ListNow().
  ~ModelHost() = default;

  // What it hosts, asked for once at the start. Blocks.
  absl::StatusOr<v1::ListModelsResponse> ListNow() const;

  // Its status; UNAVAILABLE where the host does not answer.
  void List(const Caller& caller, std::function<void(absl::StatusOr<v1::ListModelsResponse>)> done);
  // Calls `done` once the model serves, or with the host's status; UNAVAILABLE after two minutes. The
  // use ends with what `done` is given, or where that is not called any more.
  void Use(const Caller& caller, const std::string& model,
           std::function<void(absl::StatusOr<std::shared_ptr<ModelUse>>)> done);

  // Cancels the calls under way and waits for their end; no call is made from then on.
  void Shutdown();

 private:
  struct ListCall;
  class UseCall;

  bool Begins(grpc::ClientContext* context);
  void Ends(grpc::ClientContext* context);

  const std::unique_ptr<v1::ModelHostService::Stub> stub_;
  absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<grpc::ClientContext*> calls_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sluice::gateway
