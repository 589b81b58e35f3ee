// POST /v1/completions: from the request to the last byte of its answer. Belongs to the exchange's
// loop; kept alive by what it waits for.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "services/gateway/api/api_call.h"
#include "services/gateway/backend/generation_group.h"
#include "services/gateway/openai/completion_request.h"
#include "services/gateway/openai/logprobs.h"

namespace sluice::gateway::openai {

class CompletionCall : public std::enable_shared_from_this<CompletionCall> {
 public:
  static void Start(const ApiContext& context, std::shared_ptr<http::Exchange> exchange);

 private:
  // One of the n texts of one of the prompts.
  struct Choice {
    std::string text;
    std::unique_ptr<CompletionLogprobs> logprobs;
  };
  // What echo shows of a prompt.
  struct Echo {
    std::string text;
    v1::ScoreResponse score;  // where log-probabilities were asked for
  };

  CompletionCall(const ApiContext& context, std::shared_ptr<http::Exchange> exchange);

  // The steps, each of which goes on to the next.
  void Begin();
  void CheckModel(const v1::GetModelResponse& model);
  void ResolvePrompt(size_t index);
  void TruncatePrompt(size_t index);
  void EchoPrompt(size_t index);
  void ScorePrompt(size_t index);
  void Generate();

  void OnChunk(int prompt, const v1::Chunk& chunk);
  void OnFinished(const std::vector<v1::Finished>& finished);
  void Fail(const absl::Status& status);

  int num_sequences() const;
  Choice& ChoiceOf(int prompt, int sequence);
  void BeginChoices();
  void EchoChoices();
  nlohmann::json Envelope() const;
  nlohmann::json ChoiceJson(int index, const std::string& text, nlohmann::json logprobs) const;
  void SendChoice(nlohmann::json choice);

  const ApiContext context_;
  ApiCall call_;
  const std::string id_;
  const int64_t created_;
  CompletionRequest request_;
  std::string model_;
  int32_t max_positions_ = 0;
  std::shared_ptr<const TokenTexts> texts_;  // where log-probabilities were asked for
  std::vector<Echo> echoes_;                 // by prompt, where asked for
  std::vector<Choice> choices_;
};

}  // namespace sluice::gateway::openai
