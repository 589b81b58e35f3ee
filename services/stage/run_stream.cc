#include "services/stage/run_stream.h"

#include <utility>

#include "absl/status/status.h"
#include "services/stage/lane_offer.h"

namespace sluice {
namespace {

// A stream and its session; the stream's requests come one at a time.
struct RunStream {
  OpenSession open;
  std::shared_ptr<StageSession> session;

  absl::Status OnRequest(PlanLink::Stream& stream, v1::StageRunRequest request) {
    switch (request.request_case()) {
      case v1::StageRunRequest::kOpen: {
        if (session != nullptr) {
          return absl::FailedPreconditionError("this stream is open already");
        }
        absl::StatusOr<std::shared_ptr<StageSession>> opened = open(request.open(), stream);
        if (opened.ok()) session = *std::move(opened);
        return opened.status();
      }
      case v1::StageRunRequest::kExecute:
        if (session == nullptr) return absl::FailedPreconditionError("Execute before Open");
        session->AddPlan(std::move(request));
        return absl::OkStatus();
      case v1::StageRunRequest::REQUEST_NOT_SET:
        break;
    }
    return absl::InvalidArgumentError("a request without open or execute");
  }

  void End(PlanLink::Stream& stream) {
    const absl::Status reason = absl::CancelledError("the orchestrator ended the stream");
    if (session != nullptr) {
      session->Close(reason);
      session->OrchestratorLeft();
    }
    stream.Close(reason);
    session.reset();
  }
};

}  // namespace

std::string OrchestratorOf(const grpc::CallbackServerContext& context) {
  const auto found = context.client_metadata().find(kOrchestratorKey);
  if (found == context.client_metadata().end()) return "";
  return std::string(found->second.data(), found->second.size());
}

PlanLink::Stream* ServeRunStream(const grpc::CallbackServerContext& context, OpenSession open) {
  const auto served = std::make_shared<RunStream>(RunStream{.open = std::move(open)});
  return PlanLink::Stream::Start(
      {.on_request =
           [served](PlanLink::Stream& stream, v1::StageRunRequest request) {
             const absl::Status status = served->OnRequest(stream, std::move(request));
             if (!status.ok()) stream.Close(status);
           },
       .on_requests_end = [served](PlanLink::Stream& stream) { served->End(stream); },
       .on_this_host = IsOnThisHost(context)});
}

}  // namespace sluice
