// Calls of the public API, as tests make them: blocking, everything collected.
#pragma once

#include <grpcpp/channel.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "sluice/v1/generation.pb.h"

namespace sluice::testing {

struct GeneratedSequence {
  std::string text;
  std::vector<int32_t> tokens;
  std::vector<float> logprobs;  // where asked for

  friend bool operator==(const GeneratedSequence&, const GeneratedSequence&) = default;
};

struct Generated {
  absl::Status status;
  std::map<int, GeneratedSequence> sequences;  // by index
  v1::Finished finished;
  int num_finished = 0;  // Finished messages received

  const GeneratedSequence& first() const { return sequences.at(0); }
};

// A prompt of text, greedy, with as many new tokens as given and no end at EOS.
v1::GenerateRequest GreedyRequest(const std::string& prompt, int max_tokens);
// The same, sampled at temperature 1.
v1::GenerateRequest SampledRequest(const std::string& prompt, int max_tokens, uint64_t seed);

// Thread-safe.
class GenerationClient {
 public:
  // `tenant` goes with every Generate, unless it is empty.
  explicit GenerationClient(std::shared_ptr<grpc::Channel> channel, std::string tenant = "")
      : channel_(std::move(channel)), tenant_(std::move(tenant)) {}

  // `on_chunk` may cancel the call by returning false.
  Generated Generate(const v1::GenerateRequest& request, absl::Duration timeout = absl::Seconds(60),
                     const std::function<bool(const v1::Chunk&)>& on_chunk = nullptr) const;
  absl::StatusOr<v1::ScoreResponse> Score(const v1::ScoreRequest& request) const;
  absl::StatusOr<v1::TokenizeResponse> Tokenize(const std::string& text) const;
  absl::StatusOr<v1::TokenizeResponse> Tokenize(const v1::TokenizeRequest& request) const;
  absl::StatusOr<v1::GetModelResponse> GetModel() const;
  absl::StatusOr<v1::GetStatusResponse> GetStatus() const;

 private:
  const std::shared_ptr<grpc::Channel> channel_;
  const std::string tenant_;
};

// What each of the requests gets beside the others, in their order.
std::vector<Generated> GenerateAtOnce(const GenerationClient& client,
                                      const std::vector<v1::GenerateRequest>& requests);

}  // namespace sluice::testing
