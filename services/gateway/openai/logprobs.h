// Log-probabilities in the two shapes that OpenAI has for them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "services/gateway/backend/vocabulary.h"
#include "sluice/v1/generation.pb.h"

namespace sluice::gateway::openai {

// {"content": [{"token", "logprob", "bytes", "top_logprobs"}], "refusal": null} of a chat
// completion.
nlohmann::json ChatLogprobs(const v1::Chunk& chunk, const TokenTexts& texts);

// Appends what a chunk says of the prompt, in vLLM's shape of prompt_logprobs: null for its first
// token, then {"token id": {"logprob", "rank", "decoded_token"}} of the token and its alternatives. Ranks
// are known of alternatives alone.
void AddPromptLogprobs(const v1::Chunk& chunk, const TokenTexts& texts, nlohmann::json& into);

// {"tokens", "token_logprobs", "top_logprobs", "text_offset"} of a completion, appended to by
// position. Offsets count characters from the beginning of the choice's text.
class CompletionLogprobs {
 public:
  explicit CompletionLogprobs(const TokenTexts& texts) : texts_(&texts) {}

  // Without log-probabilities for the first token of a prompt, which nothing comes before.
  void AddFirst(int32_t token_id);
  void Add(int32_t token_id, const v1::PositionLogprobs& logprobs);
  void Add(const v1::Chunk& chunk);
  // What was added since the last call.
  nlohmann::json Take();

 private:
  void AddToken(int32_t token_id);

  const TokenTexts* texts_;
  nlohmann::json tokens_ = nlohmann::json::array();
  nlohmann::json logprobs_ = nlohmann::json::array();
  nlohmann::json top_ = nlohmann::json::array();
  nlohmann::json offsets_ = nlohmann::json::array();
  size_t offset_ = 0;
};

}  // namespace sluice::gateway::openai
