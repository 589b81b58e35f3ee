#include "services/gateway/anthropic/message_call.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "services/gateway/anthropic/error.h"
#include "services/gateway/api/sent_names.h"
#include "services/gateway/backend/random_id.h"
#include "services/gateway/json/json_text.h"
#include "services/gateway/json/object_writer.h"

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

// A block as JSON, of a call with its arguments as the model wrote them; a text where those are no
// object, so that nothing is lost.
std::string BlockText(const json& block, const std::string& arguments) {
  if (block["type"] != "tool_use") return ToJson(block);
  const std::string name = block["name"].get<std::string>();
  const absl::StatusOr<json> input = ParseJson(arguments);
  if (!input.ok() || !input->is_object()) {
    return ToJson({{"type", "text"}, {"text", absl::StrCat(name, " ", arguments)}});
  }
  return ObjectWriter()
      .Add("type", "tool_use")
      .Add("id", block["id"])
      .Add("name", name)
      .AddText("input", arguments)
      .Text();
}

}  // namespace

MessageCall::MessageCall(const ApiContext& context, std::shared_ptr<http::Exchange> exchange)
    : GenerationCall(context, std::move(exchange)), id_(RandomId("msg_")) {}

absl::StatusOr<GenerationCall::Needs> MessageCall::Read(const json& body) {
  absl::StatusOr<MessageRequest> request = ReadMessageRequest(body, call().request().body);
  if (!request.ok()) return request.status();
  request_ = *std::move(request);
  return Needs{
      .model = request_.model, .chat = &request_.generate.chat(), .tools = &request_.tools};
}

absl::Status MessageCall::UnknownModel(const std::string& name) const {
  return ModelNotFound(name);
}

void MessageCall::Prepare() {
  splitter_ = std::make_unique<OutputSplitter>(NewSplitter());
  Generate({request_.generate});
}

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

// What of the prompt had been cached is known at the end; message_delta has it.
void MessageCall::BeginMessage() {
  if (!request_.stream || call().has_sent_events()) return;
  json message = Message();
  v1::Usage usage;
  usage.set_num_prompt_tokens(num_prompt_tokens_);
  message["usage"] = UsageJson(usage);
  SendEvent({{"type", "message_start"}, {"message", std::move(message)}});
  SendEvent({{"type", "ping"}});
}

void MessageCall::BeginBlock(json block) {
  EndBlock();
  has_open_block_ = true;
  if (request_.stream) {
    SendEvent(
        {{"type", "content_block_start"}, {"index", blocks_.size()}, {"content_block", block}});
  }
  blocks_.push_back(std::move(block));
}

void MessageCall::EndBlock() {
  if (!std::exchange(has_open_block_, false)) return;
  if (request_.stream) {
    SendEvent({{"type", "content_block_stop"}, {"index", blocks_.size() - 1}});
  } else {
    block_texts_.push_back(BlockText(blocks_.back(), arguments_));
  }
}

void MessageCall::Append(const char* type, const char* member, const std::string& text) {
  if (!has_open_block_ || blocks_.back()["type"] != type) {
    json block = {{"type", type}, {member, ""}};
    if (block["type"] == "thinking") block["signature"] = "";
    BeginBlock(std::move(block));
  }
  if (!request_.stream) {
    blocks_.back()[member].get_ref<std::string&>() += text;
  } else if (!text.empty()) {
    SendEvent({{"type", "content_block_delta"},
               {"index", blocks_.size() - 1},
               {"delta", {{"type", absl::StrCat(type, "_delta")}, {member, text}}}});
  }
}

void MessageCall::AddToolUse(const ToolCallPiece& piece) {
  if (!piece.name.empty()) ++num_calls_;
  if (num_calls_ > 1 && !request_.tools.parallel) return;
  if (!piece.name.empty()) {
    BeginBlock({{"type", "tool_use"},
                {"id", RandomId("toolu_")},
                {"name", piece.name},
                {"input", json::object()}});
    arguments_.clear();
  }
  arguments_ += piece.arguments;
  if (!request_.stream || piece.arguments.empty()) return;
  SendEvent({{"type", "content_block_delta"},
             {"index", blocks_.size() - 1},
             {"delta", {{"type", "input_json_delta"}, {"partial_json", piece.arguments}}}});
}

void MessageCall::Take(const OutputPiece& piece) {
  BeginMessage();
  if (!piece.reasoning.empty()) Append("thinking", "thinking", piece.reasoning);
  if (!piece.text.empty()) Append("text", "text", piece.text);
  for (const ToolCallPiece& part : piece.calls) AddToolUse(part);
}

void MessageCall::OnStarted(int /*prompt*/, const v1::Started& started) {
  num_prompt_tokens_ = started.num_prompt_tokens();
}

void MessageCall::OnChunk(int /*prompt*/, const v1::Chunk& chunk) {
  Take(splitter_->Add(chunk.text()));
}

void MessageCall::OnFinished(const std::vector<v1::Finished>& all) {
  const v1::Finished& finished = all.front();
  Take(splitter_->Finish());
  if (blocks_.empty()) Append("text", "text", "");
  EndBlock();
  json end = json::object();
  SetStop(end, finished);
  if (num_calls_ > 0 && end["stop_reason"] == "end_turn") end["stop_reason"] = "tool_use";
  if (!request_.stream) {
    json message = Message();
    message.update(end);
    message["usage"] = UsageJson(finished.usage());
    message.erase("content");
    ObjectWriter body;
    for (const auto& member : message.items()) body.Add(member.key(), member.value());
    body.AddText("content", absl::StrCat("[", absl::StrJoin(block_texts_, ","), "]"));
    return call().Respond(
        {.status = 200, .headers = {{"content-type", "application/json"}}, .body = body.Text()});
  }
  SendEvent({{"type", "message_delta"},
             {"delta", std::move(end)},
             {"usage", UsageJson(finished.usage())}});
  SendEvent({{"type", "message_stop"}});
  call().EndEvents();
}

void MessageCall::Fail(const absl::Status& status) {
  const bool has_format = request_.generate.has_constraint();
  AnswerError(call(),
              AsSent(status, {.prompt = "messages",
                              .stop = "stop_sequences",
                              .constraint = has_format ? "output_config.format" : "tools"}));
}

}  // namespace sluice::gateway::anthropic
