#include "services/gateway/openai/text_paths.h"

#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "services/gateway/json/object_reader.h"
#include "services/gateway/openai/chat_request.h"
#include "services/gateway/openai/error.h"
#include "services/gateway/openai/logprobs.h"
#include "services/gateway/openai/path_action.h"
#include "services/gateway/openai/prompts.h"

namespace sluice::gateway::openai {
namespace {

using nlohmann::json;
using Call = std::shared_ptr<ApiCall>;

constexpr int32_t kMaxPriority = std::numeric_limits<int32_t>::max();

absl::Status Missing(const char* name) {
  return ParameterError(name, "missing_required_parameter",
                        std::string("Missing required parameter: '") + name + "'.");
}

template <class TokenIds>
json TokensJson(const TokenIds& token_ids, int32_t context_size) {
  return {{"tokens", token_ids}, {"count", token_ids.size()}, {"max_model_len", context_size}};
}

// Of the text in `prompt`.
void TokenizeText(const ApiContext& context, const Call& call, v1::TokenizeRequest request,
                  int32_t context_size) {
  context.backend.Tokenize(
      call->caller(), std::move(request),
      [call, context_size](const absl::StatusOr<v1::TokenizeResponse>& tokens) {
        if (!tokens.ok()) return call->Respond(ErrorResponse(tokens.status()));
        call->Respond(200, TokensJson(tokens->token_ids(), context_size));
      });
}

// Of the prompt that the chat template makes of `messages`.
void TokenizeChat(const ApiContext& context, const Call& call, const v1::Chat& chat,
                  int32_t context_size) {
  context.backend.ApplyChatTemplate(
      call->caller(), TemplateRequest(chat),
      [call, context_size](const absl::StatusOr<v1::ApplyChatTemplateResponse>& prompt) {
        if (!prompt.ok()) return call->Respond(ErrorResponse(prompt.status()));
        call->Respond(200, TokensJson(prompt->token_ids(), context_size));
      });
}

// What is to be tokenized.
struct TokenizeInput {
  std::optional<v1::Chat> chat;  // else the text
  v1::TokenizeRequest text;
};

// `body` is what the reader's object was parsed from.
absl::StatusOr<TokenizeInput> ReadTokenizeInput(ObjectReader& reader, absl::string_view body) {
  TokenizeInput input;
  const std::optional<std::string> prompt = reader.String("prompt");
  if (reader.Array("messages") != nullptr) ReadChat(reader, body, input.chat.emplace());
  if (input.chat.has_value() && prompt.has_value()) {
    reader.Fail("messages", "invalid_value",
                "'messages' and 'prompt' contradict each other: give one of them.");
  }
  if (const auto value = reader.Bool("add_special_tokens")) {
    input.text.set_add_special_tokens(*value);
  }
  if (absl::Status status = reader.Finish(); !status.ok()) return status;
  if (!input.chat.has_value() && !prompt.has_value()) {
    return ParameterError("", "missing_required_parameter",
                          "Missing required parameter: 'prompt' or 'messages'.");
  }
  input.text.set_text(prompt.value_or(""));
  return input;
}

absl::StatusOr<Action> ReadTokenize(const ApiContext& context, const Call& call,
                                    ObjectReader& reader, const v1::GetModelResponse& model) {
  absl::StatusOr<TokenizeInput> input = ReadTokenizeInput(reader, call->request().body);
  if (!input.ok()) return input.status();
  const int32_t context_size = model.max_positions();
  return Action([&context, call, input = *std::move(input), context_size] {
    if (input.chat.has_value()) return TokenizeChat(context, call, *input.chat, context_size);
    TokenizeText(context, call, input.text, context_size);
  });
}

void ServeTokenize(const ApiContext& context, std::shared_ptr<http::Exchange> exchange) {
  ReadBody(context, std::move(exchange),
           [&context](const Call& call, ObjectReader& reader, const v1::GetModelResponse& model,
                      const std::string& /*adapter*/) {
             return ReadTokenize(context, call, reader, model);
           });
}

absl::StatusOr<v1::DetokenizeRequest> ReadDetokenizeInput(ObjectReader& reader) {
  const auto tokens = reader.Integers("tokens");
  if (absl::Status status = reader.Finish(); !status.ok()) return status;
  if (!tokens.has_value()) return Missing("tokens");
  v1::DetokenizeRequest request;
  request.mutable_token_ids()->Assign(tokens->begin(), tokens->end());
  return request;
}

absl::StatusOr<Action> ReadDetokenize(const ApiContext& context, const Call& call,
                                      ObjectReader& reader) {
  const absl::StatusOr<v1::DetokenizeRequest> input = ReadDetokenizeInput(reader);
  if (!input.ok()) return input.status();
  return Action([&context, call, request = *input] {
    context.backend.Detokenize(call->caller(), request,
                               [call](const absl::StatusOr<v1::DetokenizeResponse>& text) {
                                 if (!text.ok()) return call->Respond(ErrorResponse(text.status()));
                                 call->Respond(200, {{"prompt", text->text()}});
                               });
  });
}

void ServeDetokenize(const ApiContext& context, std::shared_ptr<http::Exchange> exchange) {
  ReadBody(
      context, std::move(exchange),
      [&context](const Call& call, ObjectReader& reader, const v1::GetModelResponse&,
                 const std::string& /*adapter*/) { return ReadDetokenize(context, call, reader); });
}

// Of a ScoreResponse of one text, or of a ScoredText.
template <class Score>
json ScoreJson(const Score& score, const Prompt& prompt, const TokenTexts& texts) {
  CompletionLogprobs logprobs(texts);
  const auto* const text = std::get_if<std::string>(&prompt);
  logprobs.AddPrompt(score, text != nullptr ? *text : "");
  return {{"object", "score"},
          {"token_ids", score.token_ids()},
          {"logprobs", logprobs.Take()},
          {"sum_logprob", score.sum_logprob()},
          {"mean_nll", score.mean_nll()},
          {"perplexity", score.perplexity()}};
}

// One text's score, or a list of those of several.
json ScoresJson(const v1::ScoreResponse& response, const std::vector<Prompt>& prompts,
                const TokenTexts& texts, const std::string& model) {
  json body;
  int64_t num_tokens = response.token_ids_size();
  if (response.scores().empty()) {
    body = ScoreJson(response, prompts.front(), texts);
  } else {
    body = {{"object", "list"}, {"data", json::array()}};
    for (int i = 0; i < response.scores_size() && i < std::ssize(prompts); ++i) {
      const v1::ScoredText& score = response.scores(i);
      num_tokens += score.token_ids_size();
      body["data"].push_back(ScoreJson(score, prompts[i], texts));
      body["data"].back()["index"] = i;
    }
  }
  body["model"] = model;
  body["usage"] = {{"prompt_tokens", num_tokens}, {"total_tokens", num_tokens}};
  return body;
}

// A prompt that is an array of texts, or of arrays of token ids, asks for a list of scores.
bool AsksForSeveral(const json& prompt) {
  return prompt.is_array() && !prompt.empty() && !prompt.front().is_number();
}

// Returns the prompts that are scored.
absl::StatusOr<std::vector<Prompt>> ReadScoreInput(ObjectReader& reader,
                                                   v1::ScoreRequest& request) {
  std::vector<Prompt> prompts = ReadPrompts(reader, "prompt", kMostPrompts);
  if (const auto top = reader.Integer("top_logprobs", 0, 20)) {
    request.set_top(static_cast<int32_t>(*top));
  }
  // vLLM's priorities fall: smaller goes first.
  if (const auto priority = reader.Integer("priority", -kMaxPriority, kMaxPriority)) {
    request.set_priority(static_cast<int32_t>(-*priority));
  }
  if (absl::Status status = reader.Finish(); !status.ok()) return status;
  if (!AsksForSeveral(*reader.Any("prompt"))) {
    SetInput(prompts.front(), request);
    return prompts;
  }
  for (const Prompt& prompt : prompts) SetInput(prompt, *request.add_inputs());
  return prompts;
}

void Score(const ApiContext& context, const Call& call, const v1::ScoreRequest& request,
           const std::vector<Prompt>& prompts, const std::string& model) {
  context.backend.Score(
      call->caller(), request,
      [&context, call, prompts, model,
       asked = request.adapter().empty() ? model : request.adapter()](
          absl::StatusOr<v1::ScoreResponse> score) {
        if (!score.ok()) return call->Respond(ErrorResponse(score.status()));
        context.vocabulary.Get(
            call->caller(), model,
            [call, prompts, asked, score = *std::move(score)](
                const absl::StatusOr<std::shared_ptr<const TokenTexts>>& texts) {
              // A model without a tokenizer has scores, and no texts.
              static const auto* const kNone = new TokenTexts;
              call->Respond(200, ScoresJson(score, prompts, texts.ok() ? **texts : *kNone, asked));
            });
      });
}

void ServeScore(const ApiContext& context, std::shared_ptr<http::Exchange> exchange) {
  ReadBody(
      context, std::move(exchange),
      [&context](const Call& call, ObjectReader& reader, const v1::GetModelResponse& model,
                 const std::string& adapter) -> absl::StatusOr<Action> {
        v1::ScoreRequest request;
        request.set_adapter(adapter);
        absl::StatusOr<std::vector<Prompt>> prompts = ReadScoreInput(reader, request);
        if (!prompts.ok()) return prompts.status();
        return Action([&context, call, request = std::move(request), prompts = *std::move(prompts),
                       name = model.name()] { Score(context, call, request, prompts, name); });
      });
}

// The model that is asked for, which every body may have.
ObjectReader ReaderOf(const json& body) {
  ObjectReader reader(body);
  reader.String("model");
  return reader;
}

}  // namespace

absl::Status CheckTokenizeBody(const json& body, absl::string_view text) {
  ObjectReader reader = ReaderOf(body);
  return ReadTokenizeInput(reader, text).status();
}

absl::Status CheckDetokenizeBody(const json& body, absl::string_view) {
  ObjectReader reader = ReaderOf(body);
  return ReadDetokenizeInput(reader).status();
}

absl::Status CheckScoreBody(const json& body, absl::string_view) {
  ObjectReader reader = ReaderOf(body);
  v1::ScoreRequest request;
  return ReadScoreInput(reader, request).status();
}

void AddTextRoutes(http::Router& router, const ApiContext& context) {
  const auto add = [&](const char* path, auto* serve) {
    router.Add("POST", path, [&context, serve](std::shared_ptr<http::Exchange> exchange) {
      serve(context, std::move(exchange));
    });
  };
  add("/tokenize", &ServeTokenize);
  add("/detokenize", &ServeDetokenize);
  add("/v1/score", &ServeScore);
}

}  // namespace sluice::gateway::openai
