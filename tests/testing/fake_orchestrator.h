// The public gRPC API as a gateway sees it: every method answers at once with something plausible,
// and the token "refused" is refused. Reached over an in-process channel. Thread-safe.
#pragma once

#include <grpcpp/channel.h>

#include <atomic>
#include <memory>

#include "services/rpc/server.h"

namespace sluice::testing {

class FakeOrchestrator {
 public:
  FakeOrchestrator();
  ~FakeOrchestrator();

  std::shared_ptr<grpc::Channel> Channel();

  // Calls of any method that were made with a token that is refused.
  int num_refused() const { return num_refused_; }
  // Calls of GetModel.
  int num_models() const { return num_models_; }

 private:
  class Calls;
  class Sessions;

  std::atomic<int> num_refused_{0};
  std::atomic<int> num_models_{0};
  std::unique_ptr<Calls> calls_;
  std::unique_ptr<Sessions> sessions_;
  std::unique_ptr<Server> server_;
};

}  // namespace sluice::testing
