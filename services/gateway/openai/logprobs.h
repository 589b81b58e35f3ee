// Log-probabilities in the two shapes that OpenAI has for them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/string_view.h"
#include "services/gateway/backend/vocabulary.h"
#include "sluice/v1/generation.pb.h"

namespace sluice::gateway::openai {

// {"content": [{"token", "logprob", "bytes", "top_logprobs"}], "refusal": null} of a chat
// completion: of the first `count` tokens of a chunk that has so many log-probabilities.
nlohmann::json ChatLogprobs(const v1::Chunk& chunk, int count, const TokenTexts& texts);

// Appends what a chunk says of the prompt, in vLLM's shape of prompt_logprobs: null for its first
// token, then {"token id": {"logprob", "rank", "decoded_token"}} of the token and its alternatives.
// Ranks are known of alternatives alone.
void AddPromptLogprobs(const v1::Chunk& chunk, const TokenTexts& texts, nlohmann::json& into);

// {"tokens", "token_logprobs", "top_logprobs", "text_offset"} of a completion, appended to by
// position. Offsets count characters from the beginning of the choice's text.
class CompletionLogprobs {
 public:
  explicit CompletionLogprobs(const TokenTexts& texts) : texts_(&texts) {}

  // The tokens of a prompt, of which the first has no log-probability, and `text`, by which they
  // are placed: special tokens and a space that a tokenizer puts before a text are not part of it.
  // Where `text` is empty, the prompt is the text of its tokens.
  template <class Score>
  void AddPrompt(const Score& score, absl::string_view text) {
    absl::string_view rest = text;
    for (int i = 0; i < score.token_ids_size(); ++i) {
      AddPromptToken(score.token_ids(i), i == 0 ? nullptr : &score.logprobs(i - 1),
                     text.empty() ? nullptr : &rest);
    }
    AdvanceOver(rest);
  }
  void Add(int32_t token_id, const v1::PositionLogprobs& logprobs);
  void Add(const v1::Chunk& chunk);
  // What was added since the last call.
  nlohmann::json Take();

 private:
  // `rest` is what is left of the prompt's text, and loses what the token stands for.
  void AddPromptToken(int32_t token_id, const v1::PositionLogprobs* logprobs,
                      absl::string_view* rest);
  void AdvanceOver(absl::string_view text);
  // `shown` is what the choice's text has of the token.
  void AddToken(int32_t token_id, absl::string_view shown);
  void AddLogprobs(const v1::PositionLogprobs& logprobs);

  const TokenTexts* texts_;
  nlohmann::json tokens_ = nlohmann::json::array();
  nlohmann::json logprobs_ = nlohmann::json::array();
  nlohmann::json top_ = nlohmann::json::array();
  nlohmann::json offsets_ = nlohmann::json::array();
  size_t offset_ = 0;
};

}  // namespace sluice::gateway::openai
