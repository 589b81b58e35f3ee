#include "clients/cpp/client.h"

#include <grpcpp/create_channel.h>

#include <limits>
#include <type_traits>
#include <utility>

#include "absl/strings/str_split.h"
#include "clients/cpp/call.h"
#include "services/common/prefix_key.h"

namespace sluice::client {
namespace {

grpc::ChannelArguments ArgumentsOfChannels() {
  grpc::ChannelArguments arguments;
  // Scores of long texts are larger than gRPC's default of 4 MB.
  arguments.SetMaxReceiveMessageSize(-1);
  // An orchestrator that vanished without a word.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 10'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5'000);
  // One that was restarted is back soon.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 500);
  // A channel that has failed waits for its name to be resolved again, which happens every 30 s
  // otherwise, for numbers too.
  arguments.SetInt(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, 100);
  return arguments;
}

// A method of either service.
template <class Request, class Response>
using MethodOf = grpc::Status (v1::GenerationService::Stub::*)(grpc::ClientContext*, const Request&,
                                                               Response*);
template <class Request, class Response>
using EmbedMethodOf = grpc::Status (v1::EmbedService::Stub::*)(grpc::ClientContext*, const Request&,
                                                               Response*);

using InspectMethod = grpc::Status (v1::InspectService::Stub::*)(grpc::ClientContext*,
                                                                 const v1::InspectRequest&,
                                                                 v1::InspectResponse*);

template <class Request, class Response>
grpc::Status Invoke(Call& call, MethodOf<Request, Response> method, grpc::ClientContext* context,
                    const Request& request, Response* response) {
  return (call.stub().*method)(context, request, response);
}

template <class Request, class Response>
grpc::Status Invoke(Call& call, EmbedMethodOf<Request, Response> method,
                    grpc::ClientContext* context, const Request& request, Response* response) {
  return (call.embed_stub().*method)(context, request, response);
}

grpc::Status Invoke(Call& call, InspectMethod method, grpc::ClientContext* context,
                    const v1::InspectRequest& request, v1::InspectResponse* response) {
  return (call.inspect_stub().*method)(context, request, response);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Client>> Client::Connect(const std::string& endpoints,
                                                        ClientOptions options) {
  std::vector<std::shared_ptr<grpc::Channel>> channels;
  for (const std::string& endpoint : std::vector<std::string>(absl::StrSplit(endpoints, ','))) {
    if (endpoint.empty()) {
      return absl::InvalidArgumentError(
          "an endpoint is empty; accepted: HOST:PORT or unix:/PATH, several by comma");
    }
    channels.push_back(grpc::CreateCustomChannel(
        endpoint,
        options.credentials != nullptr ? options.credentials : grpc::InsecureChannelCredentials(),
        ArgumentsOfChannels()));
  }
  auto client = std::make_unique<Client>(std::move(channels), std::move(options));
  size_t next = 0;
  for (const std::string& endpoint : std::vector<std::string>(absl::StrSplit(endpoints, ','))) {
    client->endpoints_->names[next++] = KeyOfBytes(endpoint);
  }
  return client;
}

Client::Client(std::vector<std::shared_ptr<grpc::Channel>> channels, ClientOptions options)
    : endpoints_(
          new Endpoints{.options = std::move(options),
                        .stubs = {},
                        .inspect_stubs = {},
                        .embed_stubs = {},
                        .names = {},
                        .lost_at = std::make_unique<std::atomic<int64_t>[]>(channels.size())}) {
  for (const auto& channel : channels) {
    endpoints_->names.push_back(KeyOfBytes(std::to_string(endpoints_->names.size())));
    endpoints_->lost_at[endpoints_->names.size() - 1] = std::numeric_limits<int64_t>::min() / 2;
    endpoints_->stubs.push_back(v1::GenerationService::NewStub(channel));
    endpoints_->inspect_stubs.push_back(v1::InspectService::NewStub(channel));
    endpoints_->embed_stubs.push_back(v1::EmbedService::NewStub(channel));
  }
}

Client::~Client() = default;

template <class Request, class Response, class Method>
absl::StatusOr<Response> Client::Unary(Method method, const Request& request,
                                       const CallOptions& options) {
  Call call(endpoints_, options);
  Response response;
  grpc::Status status;
  do {
    grpc::ClientContext* const context = call.Attempt();
    status = Invoke(call, method, context, request, &response);
    if (status.ok()) return response;
  } while (call.TryAgain(status));
  return ToAbsl(call.final_status());
}

absl::StatusOr<v1::ScoreResponse> Client::Score(const v1::ScoreRequest& request, CallOptions call) {
  return Unary<v1::ScoreRequest, v1::ScoreResponse>(&v1::GenerationService::Stub::Score, request,
                                                    call);
}

absl::StatusOr<v1::InspectResponse> Client::Inspect(const v1::InspectRequest& request,
                                                    CallOptions call) {
  return Unary<v1::InspectRequest, v1::InspectResponse>(&v1::InspectService::Stub::Inspect, request,
                                                        call);
}

absl::StatusOr<v1::EmbedResponse> Client::Embed(const v1::EmbedRequest& request, CallOptions call) {
  return Unary<v1::EmbedRequest, v1::EmbedResponse>(&v1::EmbedService::Stub::Embed, request, call);
}

absl::StatusOr<v1::RerankResponse> Client::Rerank(const v1::RerankRequest& request,
                                                  CallOptions call) {
  return Unary<v1::RerankRequest, v1::RerankResponse>(&v1::EmbedService::Stub::Rerank, request,
                                                      call);
}

absl::StatusOr<v1::TokenizeResponse> Client::Tokenize(const v1::TokenizeRequest& request,
                                                      CallOptions call) {
  return Unary<v1::TokenizeRequest, v1::TokenizeResponse>(&v1::GenerationService::Stub::Tokenize,
                                                          request, call);
}

absl::StatusOr<v1::DetokenizeResponse> Client::Detokenize(const v1::DetokenizeRequest& request,
                                                          CallOptions call) {
  return Unary<v1::DetokenizeRequest, v1::DetokenizeResponse>(
      &v1::GenerationService::Stub::Detokenize, request, call);
}

absl::StatusOr<v1::ApplyChatTemplateResponse> Client::ApplyChatTemplate(
    const v1::ApplyChatTemplateRequest& request, CallOptions call) {
  return Unary<v1::ApplyChatTemplateRequest, v1::ApplyChatTemplateResponse>(
      &v1::GenerationService::Stub::ApplyChatTemplate, request, call);
}

absl::StatusOr<v1::GetVocabularyResponse> Client::GetVocabulary(
    const v1::GetVocabularyRequest& request, CallOptions call) {
  return Unary<v1::GetVocabularyRequest, v1::GetVocabularyResponse>(
      &v1::GenerationService::Stub::GetVocabulary, request, call);
}

absl::StatusOr<v1::GetModelResponse> Client::GetModel(CallOptions call) {
  return Unary<v1::GetModelRequest, v1::GetModelResponse>(&v1::GenerationService::Stub::GetModel,
                                                          {}, call);
}

absl::StatusOr<v1::GetStatusResponse> Client::GetStatus(const v1::GetStatusRequest& request,
                                                        CallOptions call) {
  return Unary<v1::GetStatusRequest, v1::GetStatusResponse>(&v1::GenerationService::Stub::GetStatus,
                                                            request, call);
}

}  // namespace sluice::client
