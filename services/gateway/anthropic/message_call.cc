#include "services/gateway/anthropic/message_call.h"

#include <utility>

#include "services/gateway/anthropic/error.h"
#include "services/gateway/backend/random.h"
#include "services/gateway/json/json_text.h"

namespace sluice::gateway::anthropic {
namespace {

using nlohmann::json;

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

MessageCall::MessageCall(const ApiContext& context, std::shared_ptr<http::Exchange> exchange)
    : GenerationCall(context, std::move(exchange)), id_(RandomId("msg_")) {}

absl::StatusOr<GenerationCall::Needs> MessageCall::Read(const json& body) {
  absl::StatusOr<MessageRequest> request = ReadMessageRequest(body);
  if (!request.ok()) return request.status();
  request_ = *std::move(request);
  return Needs{.model = request_.model};
}

absl::Status MessageCall::UnknownModel(const std::string& name) const {
  return ModelNotFound(name);
}

void MessageCall::Prepare() { Generate({request_.generate}); }

json MessageCall::Message() const {
  return {{"id", id_},
          {"type", "message"},
          {"role", "assistant"},
          {"model", model().name()},
          {"content", json::array()},
          {"stop_reason", nullptr},
          {"stop_sequence", nullptr}};
}

void MessageCall::SendEvent(json data) {
  const std::string name = data["type"];
  call().SendEvent(name, ToJson(data));
}

// How long the prompt was is known at the end; message_delta has it.
void MessageCall::BeginMessage() {
  if (call().has_sent_events()) return;
  json message = Message();
  message["usage"] = UsageJson({});
  SendEvent({{"type", "message_start"}, {"message", std::move(message)}});
  SendEvent({{"type", "content_block_start"},
             {"index", 0},
             {"content_block", {{"type", "text"}, {"text", ""}}}});
  SendEvent({{"type", "ping"}});
}

void MessageCall::OnChunk(int /*prompt*/, const v1::Chunk& chunk) {
  const std::string& text = chunk.text();
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

void MessageCall::OnFinished(const std::vector<v1::Finished>& all) {
  const v1::Finished& finished = all.front();
  if (!request_.stream) {
    json message = Message();
    message["content"].push_back({{"type", "text"}, {"text", text_}});
    SetStop(message, finished);
    message["usage"] = UsageJson(finished.usage());
    return call().Respond(200, message);
  }
  BeginMessage();
  SendEvent({{"type", "content_block_stop"}, {"index", 0}});
  json delta = json::object();
  SetStop(delta, finished);
  SendEvent({{"type", "message_delta"},
             {"delta", std::move(delta)},
             {"usage", UsageJson(finished.usage())}});
  SendEvent({{"type", "message_stop"}});
  call().EndEvents();
}

void MessageCall::Fail(const absl::Status& status) { AnswerError(call(), status); }

}  // namespace sluice::gateway::anthropic
