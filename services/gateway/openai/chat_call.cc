#include "services/gateway/openai/chat_call.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "services/gateway/backend/random.h"
#include "services/gateway/json/json_text.h"
#include "services/gateway/openai/error.h"
#include "services/gateway/openai/logprobs.h"
#include "services/gateway/openai/usage.h"

namespace sluice::gateway::openai {
namespace {

using nlohmann::json;

// Appends the positions of `more` to those of `all`.
void AppendLogprobs(json& all, json more) {
  if (all.is_null()) {
    all = std::move(more);
    return;
  }
  for (json& token : more["content"]) all["content"].push_back(std::move(token));
}

}  // namespace

void ChatCall::Start(const ApiContext& context, std::shared_ptr<http::Exchange> exchange) {
  const std::shared_ptr<ChatCall> call(new ChatCall(context, std::move(exchange)));
  call->Begin();
}

ChatCall::ChatCall(const ApiContext& context, std::shared_ptr<http::Exchange> exchange)
    : context_(context),
      call_(std::move(exchange)),
      id_(RandomId("chatcmpl-")),
      created_(absl::ToUnixSeconds(absl::Now())) {}

void ChatCall::Begin() {
  const absl::StatusOr<json> body = call_.Body();
  if (!body.ok()) return Fail(body.status());
  absl::StatusOr<ChatRequest> request = ReadChatRequest(*body);
  if (!request.ok()) return Fail(request.status());
  request_ = *std::move(request);
  context_.backend.GetModel(call_.caller(), [self = shared_from_this()](
                                                const absl::StatusOr<v1::GetModelResponse>& model) {
    if (!model.ok()) return self->Fail(model.status());
    self->CheckModel(*model);
  });
}

void ChatCall::CheckModel(const v1::GetModelResponse& model) {
  model_ = model.name();
  const std::string& wanted = request_.parameters.model;
  if (!wanted.empty() && wanted != model_) return Fail(ModelNotFound(wanted));
  if (!request_.logprobs) return Generate();
  context_.vocabulary.Get(
      call_.caller(), model_,
      [self = shared_from_this()](absl::StatusOr<std::shared_ptr<const TokenTexts>> texts) {
        if (!texts.ok()) return self->Fail(texts.status());
        self->texts_ = *std::move(texts);
        self->Generate();
      });
}

void ChatCall::Generate() {
  choices_.resize(std::max(1, request_.generate.n()));
  request_.generate.set_request_id(call_.id());
  GenerationGroup::Start(
      context_.backend, call_.caller(), {request_.generate}, call_.exchange(),
      {.on_chunk = [self = shared_from_this()](int,
                                               const v1::Chunk& chunk) { self->OnChunk(chunk); },
       .on_finished = [self = shared_from_this()](
                          const std::vector<v1::Finished>& all) { self->OnFinished(all.front()); },
       .on_failed = [self = shared_from_this()](const absl::Status& s) { self->Fail(s); }});
}

void ChatCall::OnChunk(const v1::Chunk& chunk) {
  if (chunk.sequence() < 0 || static_cast<size_t>(chunk.sequence()) >= choices_.size()) return;
  Choice& choice = choices_[chunk.sequence()];
  json logprobs;
  if (texts_ != nullptr && chunk.logprobs_size() > 0) logprobs = ChatLogprobs(chunk, *texts_);
  if (!request_.parameters.stream.stream) {
    choice.content += chunk.text();
    if (!logprobs.is_null()) AppendLogprobs(choice.logprobs, std::move(logprobs));
    return;
  }
  BeginChoice(chunk.sequence());
  if (chunk.text().empty() && logprobs.is_null()) return;
  SendDelta(chunk.sequence(), {{"content", chunk.text()}}, std::move(logprobs));
}

void ChatCall::OnFinished(const v1::Finished& finished) {
  const bool streams = request_.parameters.stream.stream;
  json choices = json::array();
  for (size_t i = 0; i < choices_.size(); ++i) {
    const int index = static_cast<int>(i);
    json object = {{"index", i}};
    if (streams) {
      BeginChoice(index);
      object["delta"] = json::object();
      object["logprobs"] = nullptr;
    } else {
      object["message"] = {
          {"role", "assistant"}, {"content", choices_[i].content}, {"refusal", nullptr}};
      object["logprobs"] = std::move(choices_[i].logprobs);
    }
    if (index < finished.sequences_size()) SetFinish(object, finished.sequences(index));
    if (streams) {
      SendChoice(std::move(object));
    } else {
      choices.push_back(std::move(object));
    }
  }
  json body = Envelope(streams ? "chat.completion.chunk" : "chat.completion");
  body["choices"] = std::move(choices);
  body["usage"] = Usage({finished});
  if (!streams) return call_.Respond(200, body);
  if (request_.parameters.stream.include_usage) call_.SendEvent(ToJson(body));
  call_.SendEvent("[DONE]");
  call_.EndEvents();
}

void ChatCall::Fail(const absl::Status& status) {
  if (!call_.has_sent_events()) return call_.Respond(ErrorResponse(status));
  call_.SendEvent(ToJson(ErrorBody(status)));
  call_.SendEvent("[DONE]");
  call_.EndEvents();
}

void ChatCall::BeginChoice(int index) {
  if (std::exchange(choices_[index].begun, true)) return;
  SendDelta(index, {{"role", "assistant"}, {"content", ""}, {"refusal", nullptr}}, nullptr);
}

void ChatCall::SendDelta(int index, json delta, json logprobs) {
  SendChoice({{"index", index},
              {"delta", std::move(delta)},
              {"logprobs", std::move(logprobs)},
              {"finish_reason", nullptr}});
}

void ChatCall::SendChoice(json choice) {
  json body = Envelope("chat.completion.chunk");
  body["choices"] = json::array({std::move(choice)});
  if (request_.parameters.stream.include_usage) body["usage"] = nullptr;
  call_.SendEvent(ToJson(body));
}

json ChatCall::Envelope(const char* object) const {
  json body = {{"id", id_}, {"object", object}, {"created", created_}, {"model", model_}};
  if (!request_.parameters.service_tier.empty()) {
    body["service_tier"] = request_.parameters.service_tier;
  }
  return body;
}

}  // namespace sluice::gateway::openai
