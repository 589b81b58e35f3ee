#include "services/gateway/openai/completion_call.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "services/gateway/backend/random.h"
#include "services/gateway/json/json_text.h"
#include "services/gateway/openai/error.h"
#include "services/gateway/openai/usage.h"

namespace sluice::gateway::openai {
namespace {

using nlohmann::json;

void SetInput(const Prompt& prompt, auto& message) {
  if (const auto* text = std::get_if<std::string>(&prompt)) {
    message.set_text(*text);
  } else {
    const auto& ids = std::get<std::vector<int32_t>>(prompt);
    message.mutable_token_ids()->mutable_token_ids()->Assign(ids.begin(), ids.end());
  }
}

}  // namespace

void CompletionCall::Start(const ApiContext& context, std::shared_ptr<http::Exchange> exchange) {
  const std::shared_ptr<CompletionCall> call(new CompletionCall(context, std::move(exchange)));
  call->Begin();
}

CompletionCall::CompletionCall(const ApiContext& context, std::shared_ptr<http::Exchange> exchange)
    : context_(context),
      call_(std::move(exchange)),
      id_(RandomId("cmpl-")),
      created_(absl::ToUnixSeconds(absl::Now())) {}

void CompletionCall::Begin() {
  const absl::StatusOr<json> body = call_.Body();
  if (!body.ok()) return Fail(body.status());
  absl::StatusOr<CompletionRequest> request = ReadCompletionRequest(*body);
  if (!request.ok()) return Fail(request.status());
  request_ = *std::move(request);
  context_.backend.GetModel(call_.caller(), [self = shared_from_this()](
                                                const absl::StatusOr<v1::GetModelResponse>& model) {
    if (!model.ok()) return self->Fail(model.status());
    self->CheckModel(*model);
  });
}

void CompletionCall::CheckModel(const v1::GetModelResponse& model) {
  model_ = model.name();
  max_positions_ = model.max_positions();
  const std::string& wanted = request_.parameters.model;
  if (!wanted.empty() && wanted != model_) return Fail(ModelNotFound(wanted));
  if (request_.echo) echoes_.resize(request_.prompts.size());
  if (!request_.logprobs.has_value()) return ResolvePrompt(0);
  context_.vocabulary.Get(
      call_.caller(), model_,
      [self = shared_from_this()](absl::StatusOr<std::shared_ptr<const TokenTexts>> texts) {
        if (!texts.ok()) return self->Fail(texts.status());
        self->texts_ = *std::move(texts);
        self->ResolvePrompt(0);
      });
}

// Prompts that are to be cut or shown take calls of their own, one prompt after the other.
void CompletionCall::ResolvePrompt(size_t index) {
  if (index == request_.prompts.size()) return Generate();
  if (request_.truncate_prompt_tokens.has_value()) return TruncatePrompt(index);
  EchoPrompt(index);
}

void CompletionCall::TruncatePrompt(size_t index) {
  const int32_t wanted = *request_.truncate_prompt_tokens;
  const int32_t room = max_positions_ - std::max(1, request_.generate.max_tokens());
  const auto keep = static_cast<size_t>(std::max(1, wanted < 0 ? room : wanted));
  const auto cut = [self = shared_from_this(), index, keep](std::vector<int32_t> ids) {
    if (ids.size() > keep) ids.erase(ids.begin(), ids.end() - static_cast<ptrdiff_t>(keep));
    self->request_.prompts[index] = std::move(ids);
    self->EchoPrompt(index);
  };
  Prompt& prompt = request_.prompts[index];
  if (auto* ids = std::get_if<std::vector<int32_t>>(&prompt)) return cut(std::move(*ids));
  v1::TokenizeRequest request;
  request.set_text(std::get<std::string>(prompt));
  context_.backend.Tokenize(
      call_.caller(), std::move(request),
      [cut, self = shared_from_this()](const absl::StatusOr<v1::TokenizeResponse>& tokens) {
        if (!tokens.ok()) return self->Fail(tokens.status());
        cut({tokens->token_ids().begin(), tokens->token_ids().end()});
      });
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
  context_.backend.Detokenize(
      call_.caller(), std::move(request),
      [self = shared_from_this(), index](absl::StatusOr<v1::DetokenizeResponse> text) {
        if (!text.ok()) return self->Fail(text.status());
        self->echoes_[index].text = std::move(*text->mutable_text());
        self->ResolvePrompt(index + 1);
      });
}

// The prompt's tokens with their log-probabilities; what is generated follows the same tokens.
void CompletionCall::ScorePrompt(size_t index) {
  v1::ScoreRequest request;
  SetInput(request_.prompts[index], request);
  request.set_top(request_.logprobs.value_or(0));
  request.set_priority(request_.generate.priority());
  context_.backend.Score(
      call_.caller(), std::move(request),
      [self = shared_from_this(), index](absl::StatusOr<v1::ScoreResponse> score) {
        if (!score.ok()) return self->Fail(score.status());
        Echo& echo = self->echoes_[index];
        echo.score = *std::move(score);
        const auto& ids = echo.score.token_ids();
        Prompt& prompt = self->request_.prompts[index];
        if (const auto* text = std::get_if<std::string>(&prompt)) {
          echo.text = *text;
        } else if (self->texts_ != nullptr) {
          for (const int32_t id : ids) {
            if (static_cast<size_t>(id) < self->texts_->size()) echo.text += (*self->texts_)[id];
          }
        }
        prompt = std::vector<int32_t>(ids.begin(), ids.end());
        self->ResolvePrompt(index + 1);
      });
}

void CompletionCall::Generate() {
  BeginChoices();
  if (!request_.generates) {
    std::vector<v1::Finished> finished(request_.prompts.size());
    for (size_t i = 0; i < finished.size(); ++i) {
      finished[i].mutable_usage()->set_num_prompt_tokens(echoes_[i].score.token_ids_size());
      for (int j = 0; j < num_sequences(); ++j) {
        finished[i].add_sequences()->set_reason(v1::FINISH_REASON_LENGTH);
      }
    }
    if (request_.parameters.stream.stream) EchoChoices();
    return OnFinished(finished);
  }
  std::vector<v1::GenerateRequest> requests;
  for (size_t i = 0; i < request_.prompts.size(); ++i) {
    requests.push_back(request_.generate);
    requests.back().set_request_id(call_.id());
    SetInput(request_.prompts[i], requests.back());
  }
  GenerationGroup::Start(
      context_.backend, call_.caller(), std::move(requests), call_.exchange(),
      {.on_chunk = [self = shared_from_this()](
                       int prompt, const v1::Chunk& chunk) { self->OnChunk(prompt, chunk); },
       .on_finished = [self = shared_from_this()](
                          const std::vector<v1::Finished>& all) { self->OnFinished(all); },
       .on_failed = [self = shared_from_this()](const absl::Status& s) { self->Fail(s); }});
}

int CompletionCall::num_sequences() const { return std::max(1, request_.generate.n()); }

CompletionCall::Choice& CompletionCall::ChoiceOf(int prompt, int sequence) {
  return choices_[static_cast<size_t>(prompt) * num_sequences() + sequence];
}

void CompletionCall::BeginChoices() {
  choices_.resize(request_.prompts.size() * num_sequences());
  for (size_t i = 0; i < choices_.size(); ++i) {
    Choice& choice = choices_[i];
    if (texts_ != nullptr) choice.logprobs = std::make_unique<CompletionLogprobs>(*texts_);
    if (echoes_.empty()) continue;
    const Echo& echo = echoes_[i / num_sequences()];
    choice.text = echo.text;
    if (choice.logprobs == nullptr) continue;
    for (int j = 0; j < echo.score.token_ids_size(); ++j) {
      if (j == 0) {
        choice.logprobs->AddFirst(echo.score.token_ids(0));
      } else {
        choice.logprobs->Add(echo.score.token_ids(j), echo.score.logprobs(j - 1));
      }
    }
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
  Choice& choice = ChoiceOf(prompt, chunk.sequence());
  if (choice.logprobs != nullptr) choice.logprobs->Add(chunk);
  if (!request_.parameters.stream.stream) {
    choice.text += chunk.text();
    return;
  }
  if (!call_.has_sent_events() && request_.echo) EchoChoices();
  if (chunk.text().empty() && choice.logprobs == nullptr) return;
  SendChoice(ChoiceJson(prompt * num_sequences() + chunk.sequence(), chunk.text(),
                        choice.logprobs != nullptr ? choice.logprobs->Take() : json(nullptr)));
}

void CompletionCall::OnFinished(const std::vector<v1::Finished>& finished) {
  const bool streams = request_.parameters.stream.stream;
  json choices = json::array();
  for (size_t i = 0; i < choices_.size(); ++i) {
    Choice& choice = choices_[i];
    const bool shows_logprobs = choice.logprobs != nullptr && !streams;
    json object = ChoiceJson(static_cast<int>(i), choice.text,
                             shows_logprobs ? choice.logprobs->Take() : json(nullptr));
    const v1::Finished& end = finished[i / num_sequences()];
    const int sequence = static_cast<int>(i) % num_sequences();
    if (sequence < end.sequences_size()) SetFinish(object, end.sequences(sequence));
    if (streams) {
      SendChoice(std::move(object));
    } else {
      choices.push_back(std::move(object));
    }
  }
  json body = Envelope();
  body["choices"] = std::move(choices);
  body["usage"] = Usage(finished);
  if (!streams) return call_.Respond(200, body);
  if (request_.parameters.stream.include_usage) call_.SendEvent(ToJson(body));
  call_.SendEvent("[DONE]");
  call_.EndEvents();
}

void CompletionCall::Fail(const absl::Status& status) {
  if (!call_.has_sent_events()) return call_.Respond(ErrorResponse(status));
  call_.SendEvent(ToJson(ErrorBody(status)));
  call_.SendEvent("[DONE]");
  call_.EndEvents();
}

json CompletionCall::Envelope() const {
  json body = {
      {"id", id_}, {"object", "text_completion"}, {"created", created_}, {"model", model_}};
  if (!request_.parameters.service_tier.empty()) {
    body["service_tier"] = request_.parameters.service_tier;
  }
  return body;
}

json CompletionCall::ChoiceJson(int index, const std::string& text, json logprobs) const {
  return {{"index", index},
          {"text", text},
          {"logprobs", std::move(logprobs)},
          {"finish_reason", nullptr}};
}

void CompletionCall::SendChoice(json choice) {
  json body = Envelope();
  body["choices"] = json::array({std::move(choice)});
  if (request_.parameters.stream.include_usage) body["usage"] = nullptr;
  call_.SendEvent(ToJson(body));
}

}  // namespace sluice::gateway::openai
