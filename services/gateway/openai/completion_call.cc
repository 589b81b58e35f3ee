#include "services/gateway/openai/completion_call.h"

#include <algorithm>
#include <utility>

#include "services/gateway/api/sent_names.h"
#include "services/gateway/openai/error.h"
#include "services/gateway/openai/usage.h"
#include "services/messages/num_returned.h"

namespace sluice::gateway::openai {
namespace {

using nlohmann::json;

}  // namespace

CompletionCall::CompletionCall(const ApiContext& context, std::shared_ptr<http::Exchange> exchange)
    : ChoiceCall(context, std::move(exchange),
                 {.id_prefix = "cmpl-", .object = "text_completion", .chunk = "text_completion"}) {}

absl::StatusOr<GenerationCall::Needs> CompletionCall::Read(const json& body) {
  absl::StatusOr<CompletionRequest> request = ReadCompletionRequest(body, call().request().body);
  if (!request.ok()) return request.status();
  request_ = *std::move(request);
  return Needs{
      .model = request_.parameters.model,
      .token_texts = request_.logprobs.has_value() || request_.generate.has_prompt_logprobs(),
      .bad_words = request_.parameters.bad_words};
}

void CompletionCall::Prepare() {
  if (request_.echo) echoes_.resize(request_.prompts.size());
  if (request_.parameters.return_token_ids) prompt_token_ids_.resize(request_.prompts.size());
  ResolvePrompt(0);
}

// Prompts that are to be cut or shown take calls of their own, one prompt after the other.
void CompletionCall::ResolvePrompt(size_t index) {
  if (index == request_.prompts.size()) return Begin();
  const bool is_text = std::holds_alternative<std::string>(request_.prompts[index]);
  const bool needs_tokens = !prompt_token_ids_.empty() || (!request_.add_special_tokens && is_text);
  if (request_.truncate_prompt_tokens.has_value() || needs_tokens) return TokenizePrompt(index);
  EchoPrompt(index);
}

// As it was asked for, and cut where it is to be.
void CompletionCall::TokenizePrompt(size_t index) {
  const bool cuts = request_.truncate_prompt_tokens.has_value();
  const int32_t wanted = request_.truncate_prompt_tokens.value_or(0);
  const int32_t room = model().max_positions() - std::max(1, request_.generate.max_tokens());
  const auto keep = static_cast<size_t>(std::max(1, wanted < 0 ? room : wanted));
  const auto cut = [this, index, keep, cuts](std::vector<int32_t> ids) {
    if (cuts && ids.size() > keep) ids.erase(ids.begin(), ids.end() - static_cast<ptrdiff_t>(keep));
    if (!prompt_token_ids_.empty()) prompt_token_ids_[index] = ids;
    // What is only shown leaves the text as it was sent.
    if (cuts || !request_.add_special_tokens) request_.prompts[index] = std::move(ids);
    EchoPrompt(index);
  };
  Prompt& prompt = request_.prompts[index];
  if (const auto* ids = std::get_if<std::vector<int32_t>>(&prompt)) return cut(*ids);
  v1::TokenizeRequest request;
  request.set_text(std::get<std::string>(prompt));
  request.set_add_special_tokens(request_.add_special_tokens);
  backend().Tokenize(call().caller(), std::move(request),
                     Then<v1::TokenizeResponse>([cut](const v1::TokenizeResponse& tokens) {
                       cut({tokens.token_ids().begin(), tokens.token_ids().end()});
                     }));
}

void CompletionCall::EchoPrompt(size_t index) {
  if (!request_.echo) return ResolvePrompt(index + 1);
  if (request_.logprobs.has_value() || !request_.generates) return ScorePrompt(index);
  const Prompt& prompt = request_.prompts[index];
  if (const auto* text = std::get_if<std::string>(&prompt)) {
    echoes_[index].text = *text;
    return ResolvePrompt(index + 1);
  }
  v1::DetokenizeRequest request;
  const auto& ids = std::get<std::vector<int32_t>>(prompt);
  request.mutable_token_ids()->Assign(ids.begin(), ids.end());
  backend().Detokenize(call().caller(), std::move(request),
                       Then<v1::DetokenizeResponse>([this, index](v1::DetokenizeResponse text) {
                         echoes_[index].text = std::move(*text.mutable_text());
                         ResolvePrompt(index + 1);
                       }));
}

// The prompt's tokens with their log-probabilities; what is generated follows the same tokens.
void CompletionCall::ScorePrompt(size_t index) {
  v1::ScoreRequest request;
  SetInput(request_.prompts[index], request);
  request.set_top(request_.logprobs.value_or(0));
  request.set_priority(request_.generate.priority());
  backend().Score(call().caller(), std::move(request),
                  Then<v1::ScoreResponse>([this, index](v1::ScoreResponse score) {
                    Echo& echo = echoes_[index];
                    echo.score = std::move(score);
                    const auto& ids = echo.score.token_ids();
                    Prompt& prompt = request_.prompts[index];
                    if (const auto* text = std::get_if<std::string>(&prompt)) {
                      echo.text = *text;
                    } else if (token_texts() != nullptr) {
                      for (const int32_t id : ids) {
                        if (static_cast<size_t>(id) < token_texts()->size()) {
                          echo.text += (*token_texts())[id];
                        }
                      }
                    }
                    prompt = std::vector<int32_t>(ids.begin(), ids.end());
                    ResolvePrompt(index + 1);
                  }));
}

void CompletionCall::Begin() {
  BeginChoices();
  if (!request_.generates) {
    std::vector<v1::Finished> finished(request_.prompts.size());
    for (size_t i = 0; i < finished.size(); ++i) {
      finished[i].mutable_usage()->set_num_prompt_tokens(echoes_[i].score.token_ids_size());
      for (int j = 0; j < num_sequences(); ++j) {
        finished[i].add_sequences()->set_reason(v1::FINISH_REASON_LENGTH);
      }
    }
    if (streams()) EchoChoices();
    return OnFinished(finished);
  }
  std::vector<v1::GenerateRequest> requests;
  for (const Prompt& prompt : request_.prompts) {
    requests.push_back(request_.generate);
    SetInput(prompt, requests.back());
  }
  Generate(std::move(requests));
}

int CompletionCall::num_sequences() const { return NumReturned(request_.generate); }

CompletionCall::Choice& CompletionCall::ChoiceOf(int prompt, int sequence) {
  return choices_[static_cast<size_t>(prompt) * num_sequences() + sequence];
}

void CompletionCall::BeginChoices() {
  choices_.resize(request_.prompts.size() * num_sequences());
  prompt_logprobs_.resize(request_.prompts.size());
  for (size_t i = 0; i < choices_.size(); ++i) {
    Choice& choice = choices_[i];
    if (request_.logprobs.has_value())
      choice.logprobs = std::make_unique<CompletionLogprobs>(*token_texts());
    if (request_.parameters.return_token_ids) choice.token_ids = json::array();
    if (echoes_.empty()) continue;
    const Echo& echo = echoes_[i / num_sequences()];
    choice.text = echo.text;
    if (choice.logprobs == nullptr) continue;
    choice.logprobs->AddPrompt(echo.score, echo.text);
  }
}

// As the first chunk of each choice.
void CompletionCall::EchoChoices() {
  for (size_t i = 0; i < choices_.size(); ++i) {
    Choice& choice = choices_[i];
    if (choice.text.empty()) continue;
    SendChoice(ChoiceJson(static_cast<int>(i), std::exchange(choice.text, ""),
                          choice.logprobs != nullptr ? choice.logprobs->Take() : json(nullptr)));
  }
}

void CompletionCall::OnChunk(int prompt, const v1::Chunk& chunk) {
  if (chunk.sequence() < 0 || chunk.sequence() >= num_sequences()) return;
  if (request_.generate.has_prompt_logprobs()) {
    AddPromptLogprobs(chunk, *token_texts(), prompt_logprobs_[prompt]);
  }
  Choice& choice = ChoiceOf(prompt, chunk.sequence());
  if (choice.logprobs != nullptr) choice.logprobs->Add(chunk);
  if (choice.token_ids.is_array()) {
    for (const int32_t id : chunk.token_ids()) choice.token_ids.push_back(id);
  }
  if (!streams()) {
    choice.text += chunk.text();
    return;
  }
  if (!call().has_sent_events() && request_.echo) EchoChoices();
  if (chunk.text().empty() && choice.logprobs == nullptr && choice.token_ids.empty()) return;
  SendChoice(ChoiceJson(prompt * num_sequences() + chunk.sequence(), chunk.text(),
                        choice.logprobs != nullptr ? choice.logprobs->Take() : json(nullptr)));
}

void CompletionCall::OnFinished(const std::vector<v1::Finished>& finished) {
  json choices = json::array();
  for (size_t i = 0; i < choices_.size(); ++i) {
    Choice& choice = choices_[i];
    const bool shows_logprobs = choice.logprobs != nullptr && !streams();
    json object = ChoiceJson(static_cast<int>(i), choice.text,
                             shows_logprobs ? choice.logprobs->Take() : json(nullptr));
    const v1::Finished& end = finished[i / num_sequences()];
    const int sequence = static_cast<int>(i) % num_sequences();
    if (sequence >= end.sequences_size() && !streams()) continue;  // a search found fewer
    if (request_.generate.has_prompt_logprobs()) {
      object["prompt_logprobs"] = prompt_logprobs_[i / num_sequences()];
    }
    if (sequence < end.sequences_size()) SetFinish(object, end.sequences(sequence));
    if (streams()) {
      SendChoice(object);
    } else {
      choices.push_back(std::move(object));
    }
  }
  End(std::move(choices), finished);
}

void CompletionCall::Fail(const absl::Status& status) {
  SentNames names = {.service_tier = request_.parameters.service_tier};
  if (!request_.parameters.constraint.empty()) names.constraint = request_.parameters.constraint;
  AnswerError(call(), AsSent(status, names));
}

json CompletionCall::ChoiceJson(int index, const std::string& text, json logprobs) {
  json object = {{"index", index},
                 {"text", text},
                 {"logprobs", std::move(logprobs)},
                 {"finish_reason", nullptr}};
  Choice& choice = choices_[index];
  if (!choice.token_ids.is_array()) return object;
  object["token_ids"] = std::exchange(choice.token_ids, json::array());
  // Once, with the first that a stream has of the choice.
  if (!std::exchange(choice.shows_prompt, true)) {
    object["prompt_token_ids"] = prompt_token_ids_[index / num_sequences()];
  }
  return object;
}

}  // namespace sluice::gateway::openai
