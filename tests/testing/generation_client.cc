#include "tests/testing/generation_client.h"

#include <grpcpp/client_context.h>

#include <thread>

#include "absl/time/clock.h"
#include "services/common/status.h"
#include "sluice/v1/generation.grpc.pb.h"

namespace sluice::testing {
namespace {

// Calls a unary method of the service.
template <class Request, class Response>
absl::StatusOr<Response> Call(const std::shared_ptr<grpc::Channel>& channel, const Request& request,
                              grpc::Status (v1::GenerationService::Stub::*method)(
                                  grpc::ClientContext*, const Request&, Response*)) {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(60)));
  Response response;
  const grpc::Status status =
      (*v1::GenerationService::NewStub(channel).*method)(&context, request, &response);
  if (!status.ok()) return FromGrpc(status);
  return response;
}

}  // namespace

v1::GenerateRequest GreedyRequest(const std::string& prompt, int max_tokens) {
  v1::GenerateRequest request;
  request.set_text(prompt);
  request.set_max_tokens(max_tokens);
  request.mutable_sampling()->set_temperature(0);
  request.mutable_stop()->set_ignore_eos(true);
  return request;
}

v1::GenerateRequest SampledRequest(const std::string& prompt, int max_tokens, uint64_t seed) {
  v1::GenerateRequest request = GreedyRequest(prompt, max_tokens);
  request.mutable_sampling()->set_temperature(1);
  request.mutable_sampling()->set_top_p(0.95F);
  request.mutable_sampling()->set_seed(seed);
  return request;
}

Generated GenerationClient::Generate(const v1::GenerateRequest& request, absl::Duration timeout,
                                     const std::function<bool(const v1::Chunk&)>& on_chunk) const {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
  if (!tenant_.empty()) context.AddMetadata("sluice-tenant", tenant_);
  const auto stub = v1::GenerationService::NewStub(channel_);
  const auto reader = stub->Generate(&context, request);
  Generated result;
  v1::GenerateResponse response;
  while (reader->Read(&response)) {
    if (response.has_finished()) {
      result.finished = response.finished();
      ++result.num_finished;
      continue;
    }
    const v1::Chunk& chunk = response.chunk();
    GeneratedSequence& sequence = result.sequences[chunk.sequence()];
    sequence.text += chunk.text();
    sequence.tokens.insert(sequence.tokens.end(), chunk.token_ids().begin(),
                           chunk.token_ids().end());
    for (const v1::PositionLogprobs& logprobs : chunk.logprobs()) {
      sequence.logprobs.push_back(logprobs.logprob());
    }
    if (on_chunk != nullptr && !on_chunk(chunk)) context.TryCancel();
  }
  result.status = FromGrpc(reader->Finish());
  return result;
}

absl::StatusOr<v1::ScoreResponse> GenerationClient::Score(const v1::ScoreRequest& request) const {
  return Call(channel_, request, &v1::GenerationService::Stub::Score);
}

absl::StatusOr<v1::TokenizeResponse> GenerationClient::Tokenize(const std::string& text) const {
  v1::TokenizeRequest request;
  request.set_text(text);
  return Tokenize(request);
}

absl::StatusOr<v1::TokenizeResponse> GenerationClient::Tokenize(
    const v1::TokenizeRequest& request) const {
  return Call(channel_, request, &v1::GenerationService::Stub::Tokenize);
}

absl::StatusOr<v1::GetModelResponse> GenerationClient::GetModel() const {
  return Call(channel_, v1::GetModelRequest(), &v1::GenerationService::Stub::GetModel);
}

absl::StatusOr<v1::GetStatusResponse> GenerationClient::GetStatus() const {
  return Call(channel_, v1::GetStatusRequest(), &v1::GenerationService::Stub::GetStatus);
}

std::vector<Generated> GenerateAtOnce(const GenerationClient& client,
                                      const std::vector<v1::GenerateRequest>& requests) {
  std::vector<Generated> results(requests.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < requests.size(); ++i) {
    threads.emplace_back([&, i] { results[i] = client.Generate(requests[i]); });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

}  // namespace sluice::testing
