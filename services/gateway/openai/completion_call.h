// POST /v1/completions.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "services/gateway/openai/choice_call.h"
#include "services/gateway/openai/completion_request.h"
#include "services/gateway/openai/logprobs.h"

namespace sluice::gateway::openai {

class CompletionCall final : public ChoiceCall {
 public:
  CompletionCall(const ApiContext& context, std::shared_ptr<http::Exchange> exchange);

 private:
  // One of the n texts of one of the prompts.
  struct Choice {
    std::string text;
    nlohmann::json token_ids;   // that no answer has had yet; null where not asked for
    bool shows_prompt = false;  // the prompt's ids were sent
    std::unique_ptr<CompletionLogprobs> logprobs;
  };
  // What echo shows of a prompt.
  struct Echo {
    std::string text;
    v1::ScoreResponse score;  // where log-probabilities were asked for
  };

  absl::StatusOr<Needs> Read(const nlohmann::json& body) override;
  void Prepare() override;
  void OnChunk(int prompt, const v1::Chunk& chunk) override;
  void OnFinished(const std::vector<v1::Finished>& finished) override;
  void Fail(const absl::Status& status) override;
  const GenerationParameters& parameters() const override { return request_.parameters; }

  // The steps of Prepare(), by prompt.
  void ResolvePrompt(size_t index);
  void TokenizePrompt(size_t index);
  void EchoPrompt(size_t index);
  void ScorePrompt(size_t index);
  void Begin();

  int num_sequences() const;
  Choice& ChoiceOf(int prompt, int sequence);
  void BeginChoices();
  void EchoChoices();
  nlohmann::json ChoiceJson(int index, const std::string& text, nlohmann::json logprobs);

  CompletionRequest request_;
  std::vector<Echo> echoes_;                            // by prompt, where asked for
  std::vector<std::vector<int32_t>> prompt_token_ids_;  // the same
  std::vector<Choice> choices_;
  std::vector<nlohmann::json> prompt_logprobs_;  // by prompt; null where not asked for
};

}  // namespace sluice::gateway::openai
