// A unary call of the public API whose request and response are bytes
// (services/messages/raw_message.h). Texts that are tokenized, or made, for a caller who leaves are
// dropped there. Thread-safe.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "orchestrator/api/client_errors.h"
#include "orchestrator/api/request_reactor.h"
#include "orchestrator/text/cancellation.h"
#include "services/common/status.h"
#include "services/messages/raw_message.h"

namespace sluice {

// Belongs to gRPC, which ends its life with OnDone.
class UnaryCall final : public RequestReactor {
 public:
  // `errors` outlives the call, which the log names by `method`.
  UnaryCall(const ClientErrors* errors, std::string method)
      : errors_(*errors), method_(std::move(method)) {}

  // To be called once.
  template <class Response>
  void Answer(const absl::StatusOr<Response>& answer) {
    if (!answer.ok()) return Finish(ToGrpc(errors_.ForClient(method_, answer.status())));
    response_ = SerializeMessage(*answer);
    StartWriteAndFinish(&response_, grpc::WriteOptions(), grpc::Status::OK);
  }

  // The same with a response that has been serialized.
  void AnswerBytes(grpc::ByteBuffer response) {
    response_ = std::move(response);
    StartWriteAndFinish(&response_, grpc::WriteOptions(), grpc::Status::OK);
  }

  // Lives as long as the call.
  void Hold(std::shared_ptr<void> place) { place_ = std::move(place); }

  // For work that is done for the caller.
  Cancellation* caller() { return &caller_; }

 private:
  void OnCancel() override { caller_.Cancel(); }
  void OnDone() override { delete this; }

  const ClientErrors& errors_;
  const std::string method_;
  grpc::ByteBuffer response_;
  Cancellation caller_;
  std::shared_ptr<void> place_;
};

}  // namespace sluice
