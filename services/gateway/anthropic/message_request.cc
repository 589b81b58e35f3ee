#include "services/gateway/anthropic/message_request.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "services/gateway/api/sampling_parameters.h"
#include "services/gateway/json/json_text.h"
#include "services/gateway/json/object_reader.h"
#include "services/gateway/json/raw_member.h"

namespace sluice::gateway::anthropic {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr size_t kMaxTools = 1024;
constexpr char kUnsupported[] = "this server does not support it";

absl::Status BadType(const std::string& path, const char* expected) {
  return ParameterError(path, "invalid_type", absl::StrCat(path, ": expected ", expected, "."));
}

// A string, or blocks of text, joined by line breaks.
absl::StatusOr<std::string> ReadText(const json& value, const std::string& path) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) return BadType(path, "a string or an array of blocks");
  std::string text;
  for (size_t i = 0; i < value.size(); ++i) {
    ObjectReader block(value[i], absl::StrCat(path, "[", i, "]"));
    const std::string type = block.String("type").value_or("");
    if (type != "text") {
      block.Fail(
          "type", "unsupported_value",
          absl::StrCat("Blocks of type '", type, "' are not supported here; accepted: 'text'."));
    }
    if (i > 0) text += '\n';
    text += block.String("text").value_or("");
    block.PassOver({"cache_control", "citations"});
    if (absl::Status status = block.Finish(); !status.ok()) return status;
  }
  return text;
}

void AddMessage(v1::Chat& chat, const std::string& role, const std::string& content,
                const json& extra = json::object()) {
  v1::ChatMessage& message = *chat.add_messages();
  message.set_role(role);
  message.set_content(content);
  if (!extra.empty()) message.set_extra_json(ToJson(extra));
}

// The turns that one message of blocks makes: results of tools are turns of their own.
class BlockReader {
 public:
  BlockReader(v1::Chat& chat, std::string role) : chat_(chat), role_(std::move(role)) {}

  absl::Status Read(const json& value, const std::string& path) {
    ObjectReader block(value, path);
    block.PassOver({"cache_control", "citations"});
    const std::string type = block.String("type").value_or("");
    if (type == "text") {
      if (!text_.empty()) text_ += '\n';
      text_ += block.String("text").value_or("");
    } else if (type == "tool_use" && role_ == "assistant") {
      ReadToolUse(block);
    } else if (type == "tool_result" && role_ == "user") {
      if (absl::Status status = ReadToolResult(block); !status.ok()) return status;
    } else if (type == "thinking" && role_ == "assistant") {
      block.PassOver({"thinking", "signature"});  // templates leave earlier thoughts out
    } else {
      block.Fail("type", "unsupported_value",
                 absl::StrCat("Blocks of type '", type, "' are not supported in a turn of '", role_,
                              "'."));
    }
    return block.Finish();
  }

  void Finish() {
    if (text_.empty() && calls_.empty() && had_results_) return;
    json extra = json::object();
    if (!calls_.empty()) extra["tool_calls"] = std::move(calls_);
    AddMessage(chat_, role_, text_, extra);
  }

 private:
  void ReadToolUse(ObjectReader& block) {
    const json* input = block.Object("input");
    calls_.push_back({{"id", block.String("id").value_or("")},
                      {"type", "function"},
                      {"function",
                       {{"name", block.String("name").value_or("")},
                        {"arguments", input != nullptr ? *input : json::object()}}}});
  }

  absl::Status ReadToolResult(ObjectReader& block) {
    const json* content = block.Any("content");
    const absl::StatusOr<std::string> text =
        content != nullptr ? ReadText(*content, block.PathOf("content")) : "";
    if (!text.ok()) return text.status();
    block.PassOver({"is_error"});
    AddMessage(chat_, "tool", *text, {{"tool_call_id", block.String("tool_use_id").value_or("")}});
    had_results_ = true;
    return absl::OkStatus();
  }

  v1::Chat& chat_;
  const std::string role_;
  std::string text_;
  json calls_ = json::array();
  bool had_results_ = false;
};

absl::Status ReadTurn(const json& object, const std::string& path, v1::Chat& chat) {
  ObjectReader reader(object, path);
  const std::string role = reader.String("role").value_or("");
  const json* content = reader.Any("content");
  if (absl::Status status = reader.Finish(); !status.ok()) return status;
  if (role != "user" && role != "assistant") {
    return ParameterError(
        path + ".role", "invalid_value",
        absl::StrCat(path, ".role: '", role, "'; accepted: 'user', 'assistant'."));
  }
  if (content == nullptr) return BadType(path + ".content", "a string or an array of blocks");
  if (content->is_string()) {
    AddMessage(chat, role, content->get<std::string>());
    return absl::OkStatus();
  }
  if (!content->is_array()) return BadType(path + ".content", "a string or an array of blocks");
  BlockReader blocks(chat, role);
  for (size_t i = 0; i < content->size(); ++i) {
    const absl::Status status = blocks.Read((*content)[i], absl::StrCat(path, ".content[", i, "]"));
    if (!status.ok()) return status;
  }
  blocks.Finish();
  return absl::OkStatus();
}

// `body` is what the tools were parsed from.
std::vector<OfferedTool> ReadOffer(ObjectReader& reader, absl::string_view body) {
  std::vector<OfferedTool> offered;
  const json* tools = reader.Array("tools");
  if (tools == nullptr) return offered;
  if (tools->size() > kMaxTools) {
    reader.Fail("tools", "array_above_max_length",
                absl::StrCat("tools: ", tools->size(), " items; accepted: up to ", kMaxTools, "."));
    return offered;
  }
  if (HasLargeObject(RawMember(body, {"tools"}).value_or(""))) {
    reader.Fail("tools", "invalid_value",
                "tools: an object has more than 512 members; accepted: up to 512.");
    return offered;
  }
  const ordered_json written = OrderedMember(body, {"tools"});
  for (size_t i = 0; i < tools->size(); ++i) {
    ObjectReader tool((*tools)[i], absl::StrCat("tools[", i, "]"));
    tool.PassOver({"cache_control"});
    const std::string type = tool.String("type").value_or("custom");
    OfferedTool read = {.name = tool.String("name").value_or(""),
                        .description = tool.String("description").value_or("")};
    read.strict = tool.Bool("strict").value_or(false);
    if (const json* schema = tool.Object("input_schema")) {
      const ordered_json* in_order = written.is_array() && i < written.size()
                                         ? FindMember(written[i], "input_schema")
                                         : nullptr;
      const bool is_known = in_order != nullptr && in_order->is_object();
      read.parameters = is_known ? in_order->dump() : schema->dump();
    }
    if (type != "custom" || read.name.empty()) {
      tool.Fail("type", "unsupported_value", "A tool must be of type 'custom' and have a name.");
    }
    reader.Fail(tool.Finish());
    offered.push_back(std::move(read));
  }
  return offered;
}

// {"type": "auto", "any", "tool" or "none"}.
void ReadChoice(ObjectReader& reader, ToolChoice& choice) {
  const json* value = reader.Object("tool_choice");
  if (value == nullptr) return;
  ObjectReader fields(*value, "tool_choice");
  const std::string type = fields.String("type").value_or("");
  const std::string name = fields.String("name").value_or("");
  choice.parallel = !fields.Bool("disable_parallel_tool_use").value_or(false);
  if (type == "none") choice.tools.clear();
  if (type == "tool") {
    std::erase_if(choice.tools, [&](const OfferedTool& tool) { return tool.name != name; });
  }
  choice.required = type == "any" || type == "tool";
  if (choice.required && choice.tools.empty()) {
    fields.Fail("name", "invalid_value", "tool_choice: names none of the tools that are offered.");
  }
  if (!choice.required && type != "none" && type != "auto") {
    fields.Fail("type", "invalid_value",
                "tool_choice.type: accepted: 'auto', 'any', 'tool', 'none'.");
  }
  reader.Fail(fields.Finish());
}

// What both paths have: the conversation.
void ReadConversation(ObjectReader& reader, absl::string_view body, MessageRequest& request) {
  request.model = reader.String("model").value_or("");
  v1::Chat& chat = *request.generate.mutable_chat();
  if (const json* system = reader.Any("system")) {
    const absl::StatusOr<std::string> text = ReadText(*system, "system");
    reader.Fail(text.status());
    if (text.ok()) AddMessage(chat, "system", *text);
  }
  const json* messages = reader.Array("messages");
  if (messages == nullptr || messages->empty()) {
    reader.Fail("messages", "missing_required_parameter", "messages: at least one is required.");
  } else {
    for (size_t i = 0; i < messages->size(); ++i) {
      reader.Fail(ReadTurn((*messages)[i], absl::StrCat("messages[", i, "]"), chat));
    }
  }
  request.tools.tools = ReadOffer(reader, body);
  ReadChoice(reader, request.tools);
  if (reader.ok() && !request.tools.tools.empty()) {
    chat.set_tools_json(ToolsJson(request.tools.tools));
  }
  if (const json* thinking = reader.Object("thinking")) {
    if (thinking->value("type", json()) != "disabled") reader.Refuse({"thinking"}, kUnsupported);
  }
  reader.Refuse(
      {"container", "context_management", "mcp_servers", "output_config", "output_format"},
      kUnsupported);
}

void ReadSampling(ObjectReader& reader, v1::GenerateRequest& generate) {
  ReadSamplingParameters(reader, *generate.mutable_sampling());
  if (const json* texts = reader.Array("stop_sequences")) {
    for (const json& text : *texts) {
      if (!text.is_string()) {
        return reader.Fail("stop_sequences", "invalid_type", "stop_sequences: strings alone.");
      }
      generate.mutable_stop()->add_stop_strings(text.get<std::string>());
    }
  }
}

}  // namespace

absl::StatusOr<MessageRequest> ReadMessageRequest(const json& body, absl::string_view text) {
  ObjectReader reader(body);
  MessageRequest request;
  ReadConversation(reader, text, request);
  ReadSampling(reader, request.generate);
  request.stream = reader.Bool("stream").value_or(false);
  if (const auto value = reader.Integer("max_tokens", 1, kMaxInt32)) {
    request.generate.set_max_tokens(static_cast<int32_t>(*value));
  } else {
    reader.Fail("max_tokens", "missing_required_parameter", "max_tokens: Field required");
  }
  const std::string tier = reader.String("service_tier").value_or("auto");
  if (tier != "auto" && tier != "standard_only") {
    reader.Fail("service_tier", "invalid_value",
                "service_tier: accepted: 'auto', 'standard_only'.");
  }
  reader.PassOver({"metadata"});
  if (absl::Status status = reader.Finish(); !status.ok()) return status;
  return request;
}

absl::StatusOr<MessageRequest> ReadCountRequest(const json& body, absl::string_view text) {
  ObjectReader reader(body);
  MessageRequest request;
  ReadConversation(reader, text, request);
  if (absl::Status status = reader.Finish(); !status.ok()) return status;
  return request;
}

}  // namespace sluice::gateway::anthropic
