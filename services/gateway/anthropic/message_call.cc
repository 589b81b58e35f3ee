#include "services/gateway/anthropic/message_call.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "services/gateway/api/http_status.h"
#include "services/gateway/backend/random.h"
#include "services/gateway/json/json_text.h"

namespace sluice::gateway::anthropic {
namespace {

using nlohmann::json;

const char* ErrorType(int http_status) {
  switch (http_status) {
    case 400:
      return "invalid_request_error";
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    case 504:
      return "timeout_error";
    default:
      return "api_error";
  }
}

json ErrorBody(const absl::Status& status, const std::string& request_id) {
  return {{"type", "error"},
          {"error",
           {{"type", ErrorType(HttpStatus(status))}, {"message", std::string(status.message())}}},
          {"request_id", request_id}};
}

json UsageJson(const v1::Usage& usage) {
  // Anthropic counts what was read from a cache apart.
  return {{"input_tokens", usage.num_prompt_tokens() - usage.num_cached_prompt_tokens()},
          {"output_tokens", usage.num_generated_tokens()},
          {"cache_creation_input_tokens", 0},
          {"cache_read_input_tokens", usage.num_cached_prompt_tokens()}};
}

void SetStop(json& object, const v1::Finished& finished) {
  object["stop_reason"] = "end_turn";
  object["stop_sequence"] = nullptr;
  if (finished.sequences().empty()) return;
  const v1::FinishedSequence& end = finished.sequences(0);
  if (end.reason() == v1::FINISH_REASON_LENGTH) object["stop_reason"] = "max_tokens";
  if (end.reason() != v1::FINISH_REASON_STOP_STRING) return;
  object["stop_reason"] = "stop_sequence";
  object["stop_sequence"] = end.stop_string();
}

}  // namespace

void MessageCall::Start(const ApiContext& context, std::shared_ptr<http::Exchange> exchange) {
  const std::shared_ptr<MessageCall> call(new MessageCall(context, std::move(exchange), false));
  call->Begin();
}

void MessageCall::StartCount(const ApiContext& context, std::shared_ptr<http::Exchange> exchange) {
  const std::shared_ptr<MessageCall> call(new MessageCall(context, std::move(exchange), true));
  call->Begin();
}

MessageCall::MessageCall(const ApiContext& context, std::shared_ptr<http::Exchange> exchange,
                         bool counts)
    : context_(context), call_(std::move(exchange)), counts_(counts), id_(RandomId("msg_")) {}

void MessageCall::Begin() {
  const absl::StatusOr<json> body = call_.Body();
  if (!body.ok()) return Fail(body.status());
  absl::StatusOr<MessageRequest> request =
      counts_ ? ReadCountRequest(*body) : ReadMessageRequest(*body);
  if (!request.ok()) return Fail(request.status());
  request_ = *std::move(request);
  context_.backend.GetModel(call_.caller(), [self = shared_from_this()](
                                                const absl::StatusOr<v1::GetModelResponse>& model) {
    if (!model.ok()) return self->Fail(model.status());
    self->CheckModel(*model);
  });
}

void MessageCall::CheckModel(const v1::GetModelResponse& model) {
  model_ = model.name();
  if (!request_.model.empty() && request_.model != model_) {
    return Fail(absl::NotFoundError(absl::StrCat("model: ", request_.model)));
  }
  request_.generate.set_request_id(call_.id());
  GenerationGroup::Start(
      context_.backend, call_.caller(), {request_.generate}, call_.exchange(),
      {.on_chunk = [self = shared_from_this()](
                       int, const v1::Chunk& chunk) { self->OnText(chunk.text()); },
       .on_finished = [self = shared_from_this()](
                          const std::vector<v1::Finished>& all) { self->OnFinished(all.front()); },
       .on_failed = [self = shared_from_this()](const absl::Status& s) { self->Fail(s); }});
}

json MessageCall::Message() const {
  return {{"id", id_},
          {"type", "message"},
          {"role", "assistant"},
          {"model", model_},
          {"content", json::array()},
          {"stop_reason", nullptr},
          {"stop_sequence", nullptr}};
}

void MessageCall::SendEvent(json data) {
  const std::string name = data["type"];
  call_.SendEvent(name, ToJson(data));
}

// How long the prompt was is known at the end; message_delta has it.
void MessageCall::BeginMessage() {
  if (call_.has_sent_events()) return;
  json message = Message();
  message["usage"] = UsageJson({});
  SendEvent({{"type", "message_start"}, {"message", std::move(message)}});
  SendEvent({{"type", "content_block_start"},
             {"index", 0},
             {"content_block", {{"type", "text"}, {"text", ""}}}});
  SendEvent({{"type", "ping"}});
}

void MessageCall::OnText(const std::string& text) {
  if (!request_.stream) {
    text_ += text;
    return;
  }
  BeginMessage();
  if (text.empty()) return;
  SendEvent({{"type", "content_block_delta"},
             {"index", 0},
             {"delta", {{"type", "text_delta"}, {"text", text}}}});
}

void MessageCall::OnFinished(const v1::Finished& finished) {
  if (counts_) return call_.Respond(200, {{"input_tokens", finished.usage().num_prompt_tokens()}});
  if (!request_.stream) {
    json message = Message();
    message["content"].push_back({{"type", "text"}, {"text", text_}});
    SetStop(message, finished);
    message["usage"] = UsageJson(finished.usage());
    return call_.Respond(200, message);
  }
  BeginMessage();
  SendEvent({{"type", "content_block_stop"}, {"index", 0}});
  json delta = json::object();
  SetStop(delta, finished);
  SendEvent({{"type", "message_delta"},
             {"delta", std::move(delta)},
             {"usage", UsageJson(finished.usage())}});
  SendEvent({{"type", "message_stop"}});
  call_.EndEvents();
}

void MessageCall::Fail(const absl::Status& status) {
  const json body = ErrorBody(status, call_.id());
  if (call_.has_sent_events()) {
    SendEvent(body);
    return call_.EndEvents();
  }
  http::Response response = {.status = HttpStatus(status),
                             .headers = {{"content-type", "application/json"}},
                             .body = ToJson(body)};
  AddRetryAfter(response, status);
  call_.Respond(std::move(response));
}

}  // namespace sluice::gateway::anthropic
