#include "services/gateway/openai/response_items.h"

#include "services/gateway/backend/random_id.h"

namespace sluice::gateway::openai {

using nlohmann::json;

void ResponseItems::AddText(const std::string& text) {
  if (open_ != Kind::kMessage) {
    Begin(Kind::kMessage, {{"type", "message"}, {"id", RandomId("msg_")}, {"role", "assistant"}});
  }
  Grow("response.output_text.delta", text, {{"content_index", 0}, {"logprobs", json::array()}});
}

void ResponseItems::AddThought(const std::string& text) {
  if (open_ != Kind::kThought) {
    Begin(Kind::kThought,
          {{"type", "reasoning"}, {"id", RandomId("rs_")}, {"summary", json::array()}});
  }
  Grow("response.reasoning_text.delta", text, {{"content_index", 0}});
}

void ResponseItems::AddCall(const ToolCallPiece& piece) {
  if (!piece.name.empty()) {
    Begin(Kind::kCall, {{"type", "function_call"},
                        {"id", RandomId("fc_")},
                        {"call_id", RandomId("call_")},
                        {"name", piece.name},
                        {"arguments", ""}});
  }
  Grow("response.function_call_arguments.delta", piece.arguments, json::object());
}

json ResponseItems::Finish(const char* status) {
  if (items_.empty()) AddText("");
  End(status);
  return items_;
}

void ResponseItems::Begin(Kind kind, json item) {
  End("completed");
  open_ = kind;
  item["status"] = "in_progress";
  if (kind != Kind::kCall) item["content"] = json::array();
  items_.push_back(item);
  if (!send_) return;
  send_("response.output_item.added",
        {{"output_index", items_.size() - 1}, {"item", std::move(item)}});
  if (kind != Kind::kCall) {
    Tell("response.content_part.added", {{"content_index", 0}, {"part", Part("")}});
  }
}

void ResponseItems::End(const char* status) {
  if (open_ == Kind::kNone) return;
  json& item = items_.back();
  item["status"] = status;
  if (open_ == Kind::kCall) {
    EndCall(item);
  } else {
    EndText(item,
            open_ == Kind::kMessage ? "response.output_text.done" : "response.reasoning_text.done");
  }
  if (send_) {
    send_("response.output_item.done", {{"output_index", items_.size() - 1}, {"item", item}});
  }
  open_ = Kind::kNone;
  text_.clear();
}

void ResponseItems::EndText(json& item, const char* done) {
  const json part = Part(text_);
  item["content"].push_back(part);
  json fields = {{"content_index", 0}, {"text", text_}};
  if (open_ == Kind::kMessage) fields["logprobs"] = json::array();
  Tell(done, std::move(fields));
  Tell("response.content_part.done", {{"content_index", 0}, {"part", part}});
}

void ResponseItems::EndCall(json& item) {
  item["arguments"] = text_;
  Tell("response.function_call_arguments.done", {{"name", item["name"]}, {"arguments", text_}});
}

void ResponseItems::Grow(const char* event, const std::string& text, json fields) {
  if (text.empty()) return;
  text_ += text;
  fields["delta"] = text;
  Tell(event, std::move(fields));
}

json ResponseItems::Part(const std::string& text) const {
  if (open_ == Kind::kThought) return {{"type", "reasoning_text"}, {"text", text}};
  return {{"type", "output_text"},
          {"text", text},
          {"annotations", json::array()},
          {"logprobs", json::array()}};
}

void ResponseItems::Tell(const char* type, json fields) {
  if (!send_) return;
  fields["item_id"] = items_.back()["id"];
  fields["output_index"] = items_.size() - 1;
  send_(type, std::move(fields));
}

}  // namespace sluice::gateway::openai
