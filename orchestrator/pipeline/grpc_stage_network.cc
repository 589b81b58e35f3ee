#include "orchestrator/pipeline/grpc_stage_network.h"

#include <grpcpp/client_context.h>

#include <utility>

#include "absl/time/clock.h"
#include "services/common/connection_cause.h"
#include "services/common/status.h"
#include "services/lane/lane_outbox.h"
#include "services/lane/lane_pump.h"
#include "services/messages/metadata.h"
#include "services/messages/wiring_message.h"
#include "services/rpc/refusal.h"
#include "services/security/local_address.h"
#include "services/stage/lane_offer.h"
#include "services/stage/run_stream.h"
#include "sluice/v1/stage.grpc.pb.h"

namespace sluice {
namespace {

using Request = v1::StageRunRequest;
using Response = v1::StageRunResponse;
using Method = ClientStream<Request, Response>::Method;

absl::Status Failure(const grpc::Status& status) {
  if (status.error_code() != grpc::StatusCode::UNAVAILABLE) return FromGrpc(status);
  return absl::UnavailableError(ConnectionCause(status.error_message()));
}

// A Run stream whose plans go by the lane that the stage offers once it is open.
class PlanStream final : public StageNetwork::Stream {
 public:
  PlanStream(const Post& post, const std::string& address, const Method& method, Handler handler)
      : stream_(
            post, method,
            {.on_response =
                 [this, address, on_response = std::move(handler.on_response)](Response response) {
                   if (response.opened().has_lane()) {
                     NoteUnused(address, outbox_.Open(response.opened().lane(), wiring_));
                   }
                   on_response(std::move(response));
                 },
             .on_done = std::move(handler.on_done)}) {}

  void Send(Request&& request) override {
    if (!request.has_execute()) {
      wiring_ = WiringOf(request.open()).value_or(WiringIdentity());
      return stream_.Send(std::move(request));
    }
    outbox_.Send(std::move(request), [this](Request&& unsent) { stream_.Send(std::move(unsent)); });
  }

 private:
  WiringIdentity wiring_;  // of the Open that was sent
  LaneOutbox<Request> outbox_;
  PostedStream<Request, Response> stream_;  // last: its handler uses what is above
};

// That of a stage which answers every plan and is reached over a unix socket: its answers come by a
// lane too.
class AnsweredPlanStream final : public StageNetwork::Stream {
 public:
  AnsweredPlanStream(const Post& post, const std::string& address, const Method& method,
                     Handler handler)
      : handler_(std::make_shared<const Handler>(std::move(handler))),
        answers_({.on_message =
                      [post, handler = std::weak_ptr(handler_)](Response response) {
                        post([handler, response = std::move(response)]() mutable {
                          if (const auto open = handler.lock())
                            open->on_response(std::move(response));
                        });
                      },
                  .on_end =
                      [post, handler = std::weak_ptr(handler_)](const absl::Status& status) {
                        post([handler, status] {
                          if (const auto open = handler.lock()) open->on_done(status);
                        });
                      }}),
        plans_(post, address, method,
               {.on_response = [this](Response response) { OnResponse(std::move(response)); },
                .on_done =
                    [this](const absl::Status& status) {
                      // OK would close nothing.
                      answers_.inbox().Close(
                          status.ok() ? absl::UnavailableError("it ended its stream") : status);
                    }}) {}

  void Send(Request&& request) override {
    if (request.has_open()) OfferLane(*request.mutable_open());
    plans_.Send(std::move(request));
  }

 private:
  void OfferLane(v1::StageOpen& open) {
    const absl::StatusOr<WiringIdentity> wiring = WiringOf(open);
    if (!wiring.ok()) return;
    if (const auto offer = answers_.inbox().Offer(*wiring)) *open.mutable_lane() = *offer;
  }

  void OnResponse(Response response) {
    if (!response.has_opened()) return answers_.inbox().Add(std::move(response));
    handler_->on_response(std::move(response));
  }

  // Of the loop's thread, and gone with this.
  const std::shared_ptr<const Handler> handler_;
  LanePump<Response> answers_;
  PlanStream plans_;  // last: it uses what is above
};

}  // namespace

GrpcStageNetwork::GrpcStageNetwork(Dialer* dialer, Post post, std::string orchestrator)
    : dialer_(dialer), post_(std::move(post)), orchestrator_(std::move(orchestrator)) {}

void GrpcStageNetwork::Ask(Role role, const std::string& address, absl::Duration timeout,
                           InfoCallback callback) {
  const auto answer = [post = post_, callback = std::move(callback)](
                          absl::StatusOr<v1::GetStageInfoResponse> info) {
    post([callback, info = std::move(info)]() mutable { callback(std::move(info)); });
  };
  absl::StatusOr<std::shared_ptr<grpc::Channel>> channel = dialer_->Dial(address, role);
  if (!channel.ok()) return answer(channel.status());
  struct Call {
    std::unique_ptr<v1::StageService::Stub> stub;
    grpc::ClientContext context;
    v1::GetStageInfoRequest request;
    v1::GetStageInfoResponse response;
  };
  auto call = std::make_shared<Call>();
  call->stub = v1::StageService::NewStub(*channel);
  call->context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
  const std::string& refusal = refusals_[address];
  if (!refusal.empty()) call->context.AddMetadata(kRefusalKey, refusal);
  call->stub->async()->GetStageInfo(&call->context, &call->request, &call->response,
                                    [call, answer](const grpc::Status& status) {
                                      if (status.ok()) {
                                        answer(std::move(call->response));
                                      } else {
                                        answer(Failure(status));
                                      }
                                    });
}

void GrpcStageNetwork::Refuse(const std::string& address, const std::string& reason) {
  refusals_[address] = reason;
}

absl::StatusOr<std::unique_ptr<StageNetwork::Stream>> GrpcStageNetwork::Run(
    Role role, const std::string& address, Stream::Handler handler) {
  absl::StatusOr<std::shared_ptr<grpc::Channel>> channel = dialer_->Dial(address, role);
  if (!channel.ok()) return channel.status();
  const auto stub = v1::StageService::NewStub(*channel);
  const Method method = [&](auto* context, auto* stream) {
    // Named in messages alone.
    AddMetadata(*context, kOrchestratorKey, orchestrator_).IgnoreError();
    stub->async()->Run(context, stream);
  };
  if (role == Role::kSampler && IsUnixAddress(address)) {
    return std::make_unique<AnsweredPlanStream>(post_, address, method, std::move(handler));
  }
  return std::make_unique<PlanStream>(post_, address, method, std::move(handler));
}

}  // namespace sluice
