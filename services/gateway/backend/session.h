// The calls of one loop to one orchestrator, on one stream (protos/sluice/v1/generation_session.proto):
// what a step brings to all of them comes as one message. Belongs to its loop. The next message is
// read once the last one was handled, so that gRPC's flow control holds the server's stream.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "absl/status/status.h"
#include "services/gateway/backend/backend.h"
#include "services/gateway/backend/call.h"
#include "sluice/v1/generation_session.grpc.pb.h"

namespace sluice::gateway {

class Session : public std::enable_shared_from_this<Session> {
 public:
  using Stub = v1::GenerationSessionService::Stub;

  // Borrows the backend and the loop. `on_unknown` is called where the server knows of no sessions;
  // its calls end with UNAVAILABLE then, as they do where it is lost.
  static std::shared_ptr<Session> Open(Backend& backend, Stub& stub, http::Loop& loop,
                                       std::function<void()> on_unknown);
  ~Session();

  // Whether another call may begin: the server has neither ended the session nor is about to.
  bool takes_calls() const { return !over_ && !draining_; }

  // REQUIRES: takes_calls().
  std::shared_ptr<Call> Start(const Caller& caller, const v1::GenerateRequest& request,
                              std::weak_ptr<CallListener> listener);

 private:
  class Stream;
  class Member;

  Session() = default;

  void OnMessage(const v1::OpenSessionResponse& message);
  void OnSessionEnd(const absl::Status& status);
  void Send(v1::SessionCommand command);

  std::shared_ptr<Stream> stream_;  // null where the backend was shut down
  std::function<void()> on_unknown_;
  std::map<int64_t, std::weak_ptr<CallListener>> calls_;  // that have not ended
  int64_t last_call_ = 0;
  bool draining_ = false;
  bool over_ = false;
};

}  // namespace sluice::gateway
