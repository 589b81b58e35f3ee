// The orchestrator's control stream, as every stage serves it: Open makes a session, Execute feeds
// it, the end of the stream closes it.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/stage/lane_offer.h"
#include "services/streams/server_stream.h"

namespace sluice {

// The metadata of a Run call that names its orchestrator: a stage belongs to one at a time.
inline constexpr char kOrchestratorKey[] = "sluice-orchestrator";

// Empty where the caller says none.
inline std::string OrchestratorOf(const grpc::CallbackServerContext& context) {
  const auto found = context.client_metadata().find(kOrchestratorKey);
  if (found == context.client_metadata().end()) return "";
  return std::string(found->second.data(), found->second.size());
}

// Serves `oneof request {open, execute}` of Request. `open` makes the session of a stream
// or says why not; `Session` is a StageSession with AddPlan(request).
template <class Session, class Request, class Response, class Open>
ServerStream<Request, Response>* ServeRunStream(const grpc::CallbackServerContext& context,
                                                Open open) {
  using Stream = ServerStream<Request, Response>;
  auto session = std::make_shared<std::shared_ptr<Session>>();  // touched by the stream's requests,
                                                                // one at a time
  return Stream::Start(
      {.on_request =
           [session, open = std::move(open)](Stream& stream, Request request) {
             if (request.has_open()) {
               if (*session != nullptr) {
                 return stream.Close(absl::FailedPreconditionError("this stream is open already"));
               }
               absl::StatusOr<std::shared_ptr<Session>> opened = open(request.open(), stream);
               if (!opened.ok()) return stream.Close(opened.status());
               *session = *std::move(opened);
             } else if (request.has_execute()) {
               if (*session == nullptr) {
                 return stream.Close(absl::FailedPreconditionError("Execute before Open"));
               }
               (*session)->AddPlan(std::move(request));
             } else {
               stream.Close(absl::InvalidArgumentError("a request without open or execute"));
             }
           },
       .on_requests_end =
           [session](Stream& stream) {
             const absl::Status reason = absl::CancelledError("the orchestrator ended the stream");
             if (*session != nullptr) {
               (*session)->Close(reason);
               (*session)->OrchestratorLeft();
             }
             stream.Close(reason);
             session->reset();
           },
       .on_this_host = IsOnThisHost(context)});
}

}  // namespace sluice
