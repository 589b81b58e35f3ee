// Converts a client's prompt (text, chat or token ids) to prompt tokens through the tokenizer
// service. Thread-safe; nothing blocks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "orchestrator/api/model_description.h"
#include "orchestrator/text/request_context.h"
#include "orchestrator/text/tokenizer_client.h"
#include "orchestrator/text/tokenizer_watch.h"
#include "services/common/steady_time.h"
#include "sluice/v1/embed.pb.h"
#include "sluice/v1/generation.pb.h"

namespace sluice {

struct ResolvedPrompt {
  std::vector<int32_t> tokens;  // at least one, each in the vocabulary
  bool has_tokenizer = false;   // whether text can be made of what follows
  // Of a pair of texts: the first token of type 1, as in TokenizeResponse; else as many as there are.
  int32_t second_begin = 0;
  // Of encoder-decoders, EngineRequest's; `tokens` begins with those of the source, filled up.
  int32_t source_positions = 0;
};

class PromptResolver {
 public:
  using Callback = std::function<void(absl::StatusOr<ResolvedPrompt>)>;

  // Borrows all three.
  PromptResolver(const ModelDescription* model, TokenizerClient* tokenizer, TokenizerWatch* watch)
      : model_(model), tokenizer_(tokenizer), watch_(watch) {}

  // Of encoder-decoders, source and prompt together.
  // FAILED_PRECONDITION for text or chat without tokenizer or template; else the tokenizer's
  // statuses. What is waited for and done is dropped when the caller leaves.
  void Resolve(const v1::GenerateRequest& request, const RequestContext& context,
               Callback callback) const;
  void Resolve(const v1::ScoreInput& input, const RequestContext& context, Callback callback) const;
  // `prompt` goes before the text, or before the first one of a pair. What a text becomes is cut to
  // `max_tokens`, where that is above 0, and so are token ids.
  void Resolve(const v1::EmbedInput& input, const std::string& prompt, int32_t max_tokens,
               const RequestContext& context, Callback callback) const;

 private:
  // The prompt, or the source of an encoder-decoder that has none.
  void FromPrompt(const v1::GenerateRequest& request, const RequestContext& context,
                  Callback callback) const;
  // Source and text of a request or of what is to be scored.
  template <class Request>
  void FromSource(const Request& request, const RequestContext& context, Callback callback) const;
  // Of an encoder-decoder: a source and what the text begins with.
  absl::StatusOr<ResolvedPrompt> Joined(ResolvedPrompt source, std::vector<int32_t> text) const;
  void FromTokens(const v1::TokenIds& tokens, SteadyTime deadline, Callback callback) const;
  void FromText(const std::string& text, const RequestContext& context, Callback callback) const;
  void FromRequest(v1::TokenizeRequest request, const RequestContext& context,
                   Callback callback) const;
  void FromChat(const v1::Chat& chat, const RequestContext& context, Callback callback) const;
  // Calls `then` with the callback when the tokenizer has answered for the first time; the callback
  // itself, with the reason, where it has not in time.
  void OnceTokenizerAnswers(SteadyTime deadline, Callback callback,
                            std::function<void(Callback)> then) const;
  // What calls back with the token ids of a response, checked.
  template <class Response>
  TokenizerClient::Callback<Response> Tokens(Callback callback) const;
  // Checks what the tokenizer made.
  absl::StatusOr<ResolvedPrompt> Checked(std::vector<int32_t> tokens) const;

  const ModelDescription* const model_;
  TokenizerClient* const tokenizer_;
  TokenizerWatch* const watch_;
};

}  // namespace sluice
