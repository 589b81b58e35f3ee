// From what a client sends to prompt tokens, through the tokenizer. Thread-safe; nothing blocks.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "orchestrator/api/model_description.h"
#include "orchestrator/api/tokenizer_facts.h"
#include "orchestrator/text/tokenizer_client.h"
#include "sluice/v1/generation.pb.h"

namespace sluice {

struct ResolvedPrompt {
  std::vector<int32_t> tokens;  // at least one, each in the vocabulary
  bool has_tokenizer = false;   // whether text can be made of what follows
};

class PromptResolver {
 public:
  using Callback = std::function<void(absl::StatusOr<ResolvedPrompt>)>;

  // Borrows all three.
  PromptResolver(const ModelDescription* model, TokenizerClient* tokenizer, TokenizerFacts* facts)
      : model_(model), tokenizer_(tokenizer), facts_(facts) {}

  // FAILED_PRECONDITION for text or chat without tokenizer or template; else the tokenizer's
  // statuses.
  void Resolve(const v1::GenerateRequest& request, absl::Time deadline, Callback callback) const;
  void Resolve(const v1::ScoreRequest& request, absl::Time deadline, Callback callback) const;

 private:
  void FromTokens(const v1::TokenIds& tokens, absl::Time deadline, Callback callback) const;
  void FromText(const std::string& text, absl::Time deadline, Callback callback) const;
  void FromChat(const v1::Chat& chat, absl::Time deadline, Callback callback) const;
  // Checks what the tokenizer made.
  absl::StatusOr<ResolvedPrompt> Checked(std::vector<int32_t> tokens) const;

  const ModelDescription* const model_;
  TokenizerClient* const tokenizer_;
  TokenizerFacts* const facts_;
};

}  // namespace sluice
