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
#include "services/security/role.h"
#include "services/stage/lane_offer.h"
#include "services/stage/run_stream.h"
#include "sluice/v1/embedding.grpc.pb.h"
#include "sluice/v1/sampler.grpc.pb.h"
#include "sluice/v1/shard.grpc.pb.h"

namespace sluice {
namespace {

// What serves the service, as its certificate has to say.
template <class Service>
constexpr Role ServerOf();
template <>
constexpr Role ServerOf<v1::EmbeddingService>() {
  return Role::kEmbedding;
}
template <>
constexpr Role ServerOf<v1::ShardService>() {
  return Role::kShard;
}
template <>
constexpr Role ServerOf<v1::SamplerService>() {
  return Role::kSampler;
}

absl::Status Failure(const grpc::Status& status) {
  if (status.error_code() != grpc::StatusCode::UNAVAILABLE) return FromGrpc(status);
  return absl::UnavailableError(ConnectionCause(status.error_message()));
}

template <class Service, class Request, class Response>
void Ask(Dialer& dialer, const Post& post, const std::string& address, const std::string& refusal,
         absl::Duration timeout, StageNetwork::InfoCallback<Response> callback) {
  const auto answer = [post, callback = std::move(callback)](absl::StatusOr<Response> info) {
    post([callback, info = std::move(info)]() mutable { callback(std::move(info)); });
  };
  absl::StatusOr<std::shared_ptr<grpc::Channel>> channel =
      dialer.Dial(address, ServerOf<Service>());
  if (!channel.ok()) return answer(channel.status());
  struct Call {
    std::unique_ptr<typename Service::Stub> stub;
    grpc::ClientContext context;
    Request request;
    Response response;
  };
  auto call = std::make_shared<Call>();
  call->stub = Service::NewStub(*channel);
  call->context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
  if (!refusal.empty()) call->context.AddMetadata(kRefusalKey, refusal);
  call->stub->async()->GetInfo(&call->context, &call->request, &call->response,
                               [call, answer](const grpc::Status& status) {
                                 if (status.ok()) {
                                   answer(std::move(call->response));
                                 } else {
                                   answer(Failure(status));
                                 }
                               });
}

// A Run stream whose plans go by the lane that the stage offers once it is open.
template <class Request, class Response>
class PlanStream final : public MessageStream<Request, Response> {
 public:
  using Handler = typename MessageStream<Request, Response>::Handler;

  PlanStream(const Post& post, const std::string& address,
             const typename ClientStream<Request, Response>::Method& method, Handler handler)
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

// That of a sampler which is reached over a unix socket: its answers come by a lane too.
class SamplerPlanStream final
    : public MessageStream<v1::SamplerRunRequest, v1::SamplerRunResponse> {
 public:
  SamplerPlanStream(
      const Post& post, const std::string& address,
      const ClientStream<v1::SamplerRunRequest, v1::SamplerRunResponse>::Method& method,
      Handler handler)
      : handler_(std::make_shared<const Handler>(std::move(handler))),
        answers_({.on_message =
                      [post, handler = std::weak_ptr(handler_)](v1::SamplerRunResponse response) {
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
               {.on_response =
                    [this](v1::SamplerRunResponse response) { OnResponse(std::move(response)); },
                .on_done =
                    [this](const absl::Status& status) {
                      // OK would close nothing.
                      answers_.inbox().Close(
                          status.ok() ? absl::UnavailableError("it ended its stream") : status);
                    }}) {}

  void Send(v1::SamplerRunRequest&& request) override {
    if (request.has_open()) OfferLane(*request.mutable_open());
    plans_.Send(std::move(request));
  }

 private:
  void OfferLane(v1::SamplerOpen& open) {
    const absl::StatusOr<WiringIdentity> wiring = WiringOf(open);
    if (!wiring.ok()) return;
    if (const auto offer = answers_.inbox().Offer(*wiring)) *open.mutable_lane() = *offer;
  }

  void OnResponse(v1::SamplerRunResponse response) {
    if (response.has_executed()) return answers_.inbox().Add(std::move(response));
    handler_->on_response(std::move(response));
  }

  // Of the loop's thread, and gone with this.
  const std::shared_ptr<const Handler> handler_;
  LanePump<v1::SamplerRunResponse> answers_;
  PlanStream<v1::SamplerRunRequest, v1::SamplerRunResponse> plans_;  // last: it uses what is above
};

template <class Service, class Stream>
absl::StatusOr<std::unique_ptr<Stream>> Run(Dialer& dialer, const Post& post,
                                            const std::string& orchestrator,
                                            const std::string& address,
                                            typename Stream::Handler handler) {
  absl::StatusOr<std::shared_ptr<grpc::Channel>> channel =
      dialer.Dial(address, ServerOf<Service>());
  if (!channel.ok()) return channel.status();
  const auto stub = Service::NewStub(*channel);
  return std::make_unique<Stream>(
      post, address,
      [&](auto* context, auto* stream) {
        // Named in messages alone.
        AddMetadata(*context, kOrchestratorKey, orchestrator).IgnoreError();
        stub->async()->Run(context, stream);
      },
      std::move(handler));
}

}  // namespace

GrpcStageNetwork::GrpcStageNetwork(Dialer* dialer, Post post, std::string orchestrator)
    : dialer_(dialer), post_(std::move(post)), orchestrator_(std::move(orchestrator)) {}

void GrpcStageNetwork::AskEmbedding(const std::string& address, absl::Duration timeout,
                                    InfoCallback<v1::GetEmbeddingInfoResponse> callback) {
  Ask<v1::EmbeddingService, v1::GetEmbeddingInfoRequest>(
      *dialer_, post_, address, refusals_[address], timeout, std::move(callback));
}

void GrpcStageNetwork::AskShard(const std::string& address, absl::Duration timeout,
                                InfoCallback<v1::GetShardInfoResponse> callback) {
  Ask<v1::ShardService, v1::GetShardInfoRequest>(*dialer_, post_, address, refusals_[address],
                                                 timeout, std::move(callback));
}

void GrpcStageNetwork::AskSampler(const std::string& address, absl::Duration timeout,
                                  InfoCallback<v1::GetSamplerInfoResponse> callback) {
  Ask<v1::SamplerService, v1::GetSamplerInfoRequest>(*dialer_, post_, address, refusals_[address],
                                                     timeout, std::move(callback));
}

void GrpcStageNetwork::Refuse(const std::string& address, const std::string& reason) {
  refusals_[address] = reason;
}

absl::StatusOr<std::unique_ptr<StageNetwork::EmbeddingStream>> GrpcStageNetwork::RunEmbedding(
    const std::string& address, EmbeddingStream::Handler handler) {
  using Stream = PlanStream<v1::EmbeddingRunRequest, v1::EmbeddingRunResponse>;
  return Run<v1::EmbeddingService, Stream>(*dialer_, post_, orchestrator_, address,
                                           std::move(handler));
}

absl::StatusOr<std::unique_ptr<StageNetwork::ShardStream>> GrpcStageNetwork::RunShard(
    const std::string& address, ShardStream::Handler handler) {
  using Stream = PlanStream<v1::ShardRunRequest, v1::ShardRunResponse>;
  return Run<v1::ShardService, Stream>(*dialer_, post_, orchestrator_, address, std::move(handler));
}

absl::StatusOr<std::unique_ptr<StageNetwork::SamplerStream>> GrpcStageNetwork::RunSampler(
    const std::string& address, SamplerStream::Handler handler) {
  if (IsUnixAddress(address)) {
    return Run<v1::SamplerService, SamplerPlanStream>(*dialer_, post_, orchestrator_, address,
                                                      std::move(handler));
  }
  using Stream = PlanStream<v1::SamplerRunRequest, v1::SamplerRunResponse>;
  return Run<v1::SamplerService, Stream>(*dialer_, post_, orchestrator_, address,
                                         std::move(handler));
}

}  // namespace sluice
