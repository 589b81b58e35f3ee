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

void Tokenize(const ApiContext& context, const Call& call, const TokenizeInput& input,
              int32_t context_size) {
  const auto tokens_json = [context_size](const auto& tokens) {
    return TokensJson(tokens.token_ids(), context_size);
  };
  if (!input.chat.has_value()) {
    return context.backend.Tokenize(call->caller(), input.text,
                                    AnswerWith<v1::TokenizeResponse>(call, tokens_json));
  }
  // Of the prompt that the chat template makes of `messages`.
  context.backend.ApplyChatTemplate(call->caller(), TemplateRequest(*input.chat),
                                    AnswerWith<v1::ApplyChatTemplateResponse>(call, tokens_json));
}

void ServeTokenize(const ApiContext& context, std::shared_ptr<http::Exchange> exchange) {
  ServeBody(
      context, std::move(exchange),
      [](ObjectReader& reader, const Call& call, const auto&) {
        return ReadTokenizeInput(reader, call->request().body);
      },
      [&context](const Call& call, const TokenizeInput& input, const auto& model) {
        Tokenize(context, call, input, model.max_positions());
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

void ServeDetokenize(const ApiContext& context, std::shared_ptr<http::Exchange> exchange) {
  ServeBody(
      context, std::move(exchange),
      [](ObjectReader& reader, const auto&, const auto&) { return ReadDetokenizeInput(reader); },
      [&context](const Call& call, const v1::DetokenizeRequest& request, const auto&) {
        context.backend.Detokenize(call->caller(), request,
                                   AnswerWith<v1::DetokenizeResponse>(call, [](const auto& text) {
                                     return json{{"prompt", text.text()}};
                                   }));
      });
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

struct ScoreInput {
  v1::ScoreRequest request;
  std::vector<Prompt> prompts;  // that are scored
};

absl::StatusOr<ScoreInput> ReadScoreInput(ObjectReader& reader) {
  ScoreInput input;
  input.prompts = ReadPrompts(reader, "prompt", kMostPrompts);
  if (const auto top = reader.Integer("top_logprobs", 0, 20)) {
    input.request.set_top(static_cast<int32_t>(*top));
  }
  // vLLM's priorities fall: smaller goes first.
  if (const auto priority = reader.Integer("priority", -kMaxPriority, kMaxPriority)) {
    input.request.set_priority(static_cast<int32_t>(-*priority));
  }
  if (absl::Status status = reader.Finish(); !status.ok()) return status;
  if (!AsksForSeveral(*reader.Any("prompt"))) {
    SetInput(input.prompts.front(), input.request);
    return input;
  }
  for (const Prompt& prompt : input.prompts) SetInput(prompt, *input.request.add_inputs());
  return input;
}

void Score(const ApiContext& context, const Call& call, const v1::ScoreRequest& request,
           const std::vector<Prompt>& prompts, const std::string& model) {
  context.backend.Score(
      call->caller(), request,
      [&context, call, prompts, model](absl::StatusOr<v1::ScoreResponse> score) {
        if (!score.ok()) return call->Respond(ErrorResponse(score.status()));
        context.vocabulary.Get(
            call->caller(), model,
            [call, prompts, model, score = *std::move(score)](
                const absl::StatusOr<std::shared_ptr<const TokenTexts>>& texts) {
              // A model without a tokenizer has scores, and no texts.
              static const auto* const kNone = new TokenTexts;
              call->Respond(200, ScoresJson(score, prompts, texts.ok() ? **texts : *kNone, model));
            });
      });
}

void ServeScore(const ApiContext& context, std::shared_ptr<http::Exchange> exchange) {
  ServeBody(
      context, std::move(exchange),
      [](ObjectReader& reader, const auto&, const auto&) { return ReadScoreInput(reader); },
      [&context](const Call& call, const ScoreInput& input, const auto& model) {
        Score(context, call, input.request, input.prompts, model.name());
      });
}

}  // namespace

absl::Status CheckTokenizeBody(const json& body, absl::string_view text) {
  ObjectReader reader = ReaderWithModel(body);
  return ReadTokenizeInput(reader, text).status();
}

absl::Status CheckDetokenizeBody(const json& body, absl::string_view) {
  ObjectReader reader = ReaderWithModel(body);
  return ReadDetokenizeInput(reader).status();
}

absl::Status CheckScoreBody(const json& body, absl::string_view) {
  ObjectReader reader = ReaderWithModel(body);
  return ReadScoreInput(reader).status();
}

void AddTextRoutes(http::Router& router, const ApiContext& context) {
  AddPost(router, context, "/tokenize", &ServeTokenize);
  AddPost(router, context, "/detokenize", &ServeDetokenize);
  AddPost(router, context, "/v1/score", &ServeScore);
}

}  // namespace sluice::gateway::openai
