#include "services/gateway/anthropic/message_request.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "services/gateway/api/sampling_parameters.h"
#include "services/gateway/json/json_text.h"
#include "services/gateway/json/object_reader.h"
#include "services/gateway/json/object_writer.h"
#include "services/gateway/json/raw_member.h"

namespace sluice::gateway::anthropic {
namespace {

using nlohmann::json;

constexpr size_t kMaxTools = 1024;
constexpr char kUnsupported[] = "this server does not support it";

absl::Status BadType(const std::string& path, const char* expected) {
  return ParameterError(path, "invalid_type", absl::StrCat(path, ": expected ", expected, "."));
}

// What stands for a part of a tool's result that a model of text can't see, so that the
// conversation goes on.
std::string Unseen(absl::string_view type) {
  return absl::StrCat("[", type, ": not shown, this model reads text]");
}

// "" where there is none.
std::string StringOf(const json& object, const char* name) {
  if (!object.is_object()) return "";
  const auto member = object.find(name);
  return member != object.end() && member->is_string() ? member->get<std::string>() : "";
}

// Of a document or a search result that came with a tool's result: its text, where it has one.
std::string TextOfDocument(ObjectReader& block, const std::string& type) {
  const json* source = block.Any("source");  // of a search result, where it was found
  const std::string title = block.String("title").value_or("");
  block.PassOver({"context"});
  std::string text = title.empty() ? "" : title + "\n";
  if (const json* content = block.Array("content")) {
    for (const json& part : *content) absl::StrAppend(&text, StringOf(part, "text"), "\n");
  } else if (source != nullptr && StringOf(*source, "type") == "text") {
    absl::StrAppend(&text, StringOf(*source, "data"));
  }
  return text.empty() ? Unseen(type) : text;
}

// The text of a block. `is_result`: of a tool's result, in which everything is text or is stood
// for.
std::string TextOfBlock(ObjectReader& block, bool is_result) {
  const std::string type = block.String("type").value_or("");
  block.PassOver({"cache_control", "citations"});
  if (type == "text") return block.String("text").value_or("");
  if (is_result && type == "image") {
    block.PassOver({"source"});
    return Unseen(type);
  }
  if (is_result && type == "tool_reference") return block.String("tool_name").value_or("");
  if (is_result && (type == "document" || type == "search_result")) {
    return TextOfDocument(block, type);
  }
  block.Fail("type", "unsupported_value",
             absl::StrCat("Blocks of type '", type, "' are not supported here; accepted: 'text'."));
  return "";
}

// A string, or blocks of text, joined by line breaks.
absl::StatusOr<std::string> ReadText(const json& value, const std::string& path,
                                     bool is_result = false) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) return BadType(path, "a string or an array of blocks");
  std::string text;
  for (size_t i = 0; i < value.size(); ++i) {
    ObjectReader block(value[i], absl::StrCat(path, "[", i, "]"));
    absl::StrAppend(&text, i > 0 ? "\n" : "", TextOfBlock(block, is_result));
    if (absl::Status status = block.Finish(); !status.ok()) return status;
  }
  return text;
}

void AddMessage(v1::Chat& chat, const std::string& role, const std::string& content,
                const ObjectWriter& extra = {}) {
  v1::ChatMessage& message = *chat.add_messages();
  message.set_role(role);
  message.set_content(content);
  if (!extra.empty()) message.set_extra_json(extra.Text());
}

// The turns that one message of blocks makes: results of tools are turns of their own.
class BlockReader {
 public:
  BlockReader(v1::Chat& chat, std::string role) : chat_(chat), role_(std::move(role)) {}

  // `raw` is the text of `value`.
  absl::Status Read(const json& value, absl::string_view raw, const std::string& path) {
    ObjectReader block(value, path);
    block.PassOver({"cache_control", "citations"});
    const std::string type = block.String("type").value_or("");
    if (type == "text") {
      if (!text_.empty()) text_ += '\n';
      text_ += block.String("text").value_or("");
    } else if (type == "tool_use" && role_ == "assistant") {
      ReadToolUse(block, raw);
    } else if (type == "tool_result" && role_ == "user") {
      if (absl::Status status = ReadToolResult(block); !status.ok()) return status;
    } else if (type == "thinking" && role_ == "assistant") {
      absl::StrAppend(&thought_, thought_.empty() ? "" : "\n",
                      block.String("thinking").value_or(""));
      block.PassOver({"signature"});
    } else if (type == "redacted_thinking" && role_ == "assistant") {
      block.PassOver({"data"});  // Anthropic's servers alone can read it
    } else {
      block.Fail("type", "unsupported_value",
                 absl::StrCat("Blocks of type '", type, "' are not supported in a turn of '", role_,
                              "'."));
    }
    return block.Finish();
  }

  // Whether the turn is one of text that a model can go on with.
  bool has_calls() const { return !calls_.empty(); }

  void Finish() {
    if (text_.empty() && calls_.empty() && had_results_) return;
    ObjectWriter extra;
    if (!thought_.empty()) extra.Add("reasoning_content", thought_);
    if (!calls_.empty()) {
      extra.AddText("tool_calls", absl::StrCat("[", absl::StrJoin(calls_, ","), "]"));
    }
    AddMessage(chat_, role_, text_, extra);
  }

 private:
  void ReadToolUse(ObjectReader& block, absl::string_view raw) {
    block.PassOver({"caller"});
    ObjectWriter function;
    function.Add("name", block.String("name").value_or(""));
    // As it was written: the model is to see what it wrote.
    const bool has_input = block.Object("input") != nullptr;
    function.AddText("arguments", has_input ? RawMember(raw, {"input"}).value_or("{}") : "{}");
    calls_.push_back(ObjectWriter()
                         .Add("id", block.String("id").value_or(""))
                         .Add("type", "function")
                         .AddText("function", function.Text())
                         .Text());
  }

  absl::Status ReadToolResult(ObjectReader& block) {
    const json* content = block.Any("content");
    const absl::StatusOr<std::string> text =
        content != nullptr ? ReadText(*content, block.PathOf("content"), /*is_result=*/true) : "";
    if (!text.ok()) return text.status();
    block.PassOver({"is_error"});
    AddMessage(chat_, "tool", *text,
               ObjectWriter().Add("tool_call_id", block.String("tool_use_id").value_or("")));
    had_results_ = true;
    return absl::OkStatus();
  }

  v1::Chat& chat_;
  const std::string role_;
  std::string text_;
  std::string thought_;
  std::vector<std::string> calls_;  // as JSON
  bool had_results_ = false;
};

// Whether a model can go on with the turn.
absl::StatusOr<bool> ReadTurn(const json& object, absl::string_view raw, const std::string& path,
                              v1::Chat& chat) {
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
    return role == "assistant";
  }
  if (!content->is_array()) return BadType(path + ".content", "a string or an array of blocks");
  BlockReader blocks(chat, role);
  const std::vector<absl::string_view> written =
      RawElements(RawMember(raw, {"content"}).value_or(""));
  for (size_t i = 0; i < content->size(); ++i) {
    const absl::Status status = blocks.Read((*content)[i], i < written.size() ? written[i] : "",
                                            absl::StrCat(path, ".content[", i, "]"));
    if (!status.ok()) return status;
  }
  blocks.Finish();
  return role == "assistant" && !blocks.has_calls();
}

// Tools that Anthropic defines have a type with a date: its servers run some, and its models alone
// know how to call the others.
bool IsAnthropicsTool(absl::string_view type) {
  constexpr absl::string_view kNames[] = {
      "advisor_", "bash_",        "code_execution_",   "computer_",  "mcp_toolset",
      "memory_",  "text_editor_", "tool_search_tool_", "web_fetch_", "web_search_"};
  return std::any_of(std::begin(kNames), std::end(kNames),
                     [type](absl::string_view name) { return absl::StartsWith(type, name); });
}

OfferedTool ReadTool(ObjectReader& tool, absl::string_view raw) {
  // How a tool's input is streamed, whether it is shown from the beginning, and examples of it.
  tool.PassOver({"allowed_callers", "cache_control", "defer_loading", "eager_input_streaming",
                 "input_examples"});
  const std::string type = tool.String("type").value_or("custom");
  OfferedTool read = {.name = tool.String("name").value_or(""),
                      .description = tool.String("description").value_or("")};
  read.strict = tool.Bool("strict").value_or(false);
  if (const json* schema = tool.Object("input_schema")) {
    const std::optional<absl::string_view> written = RawMember(raw, {"input_schema"});
    read.parameters = written.has_value() ? std::string(*written) : ToJson(*schema);
  }
  if (IsAnthropicsTool(type)) {
    tool.Fail("type", "unsupported_value",
              absl::StrCat(tool.PathOf("type"), ": '", type,
                           "' is a tool that Anthropic defines, and there is none here; accepted: "
                           "'custom', a tool of your own with an input_schema."));
  } else if (type != "custom") {
    tool.Fail("type", "unsupported_value",
              absl::StrCat(tool.PathOf("type"), ": '", type, "'; accepted: 'custom'."));
  } else if (read.name.empty()) {
    tool.Fail("name", "missing_required_parameter",
              absl::StrCat(tool.PathOf("name"), ": Field required"));
  }
  return read;
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
  const absl::string_view text = RawMember(body, {"tools"}).value_or("");
  if (HasLargeObject(text)) {
    reader.Fail("tools", "invalid_value",
                "tools: an object has more than 512 members; accepted: up to 512.");
    return offered;
  }
  const std::vector<absl::string_view> raw = RawElements(text);
  for (size_t i = 0; i < tools->size(); ++i) {
    ObjectReader tool((*tools)[i], absl::StrCat("tools[", i, "]"));
    offered.push_back(ReadTool(tool, i < raw.size() ? raw[i] : ""));
    reader.Fail(tool.Finish());
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

// The turns. The model goes on with the last where that is the assistant's.
void ReadTurns(ObjectReader& reader, absl::string_view body, v1::Chat& chat) {
  const json* messages = reader.Array("messages");
  if (messages == nullptr || messages->empty()) {
    return reader.Fail("messages", "missing_required_parameter",
                       "messages: at least one is required.");
  }
  const std::vector<absl::string_view> raw =
      RawElements(RawMember(body, {"messages"}).value_or(""));
  bool goes_on = false;
  for (size_t i = 0; i < messages->size() && reader.ok(); ++i) {
    const absl::StatusOr<bool> turn = ReadTurn((*messages)[i], i < raw.size() ? raw[i] : "",
                                               absl::StrCat("messages[", i, "]"), chat);
    reader.Fail(turn.status());
    goes_on = turn.ok() && *turn;
  }
  chat.set_continue_final_message(goes_on);
}

// {"type": "enabled", "budget_tokens"}, "adaptive" or "disabled": what chat templates call
// `enable_thinking`, or `thinking`. How much is thought they can't be told.
void ReadThinking(ObjectReader& reader, ObjectWriter& variables) {
  const json* thinking = reader.Object("thinking");
  if (thinking == nullptr) return;
  ObjectReader fields(*thinking, "thinking");
  const std::string type = fields.String("type").value_or("");
  fields.PassOver({"budget_tokens", "display"});
  if (fields.ok() && type != "enabled" && type != "adaptive" && type != "disabled") {
    fields.Fail(
        "type", "invalid_value",
        absl::StrCat("thinking.type: '", type, "'; accepted: 'enabled', 'adaptive', 'disabled'."));
  }
  reader.Fail(fields.Finish());
  variables.Add("enable_thinking", type != "disabled").Add("thinking", type != "disabled");
}

void ReadFormat(ObjectReader& holder, std::optional<absl::string_view> schema_text,
                const char* name, v1::GenerateRequest& generate) {
  const json* format = holder.Object(name);
  if (format == nullptr) return;
  ObjectReader fields(*format, holder.PathOf(name));
  const std::string type = fields.String("type").value_or("");
  const json* schema = fields.Object("schema");
  if (type != "json_schema" || schema == nullptr) {
    fields.Fail("type", "invalid_value",
                absl::StrCat(holder.PathOf(name),
                             ": accepted: a 'type' of 'json_schema' and a "
                             "'schema'."));
  } else {
    generate.mutable_constraint()->set_json_schema(
        schema_text.has_value() ? std::string(*schema_text) : ToJson(*schema));
  }
  holder.Fail(fields.Finish());
}

// {"effort", "format"}, of which the first is the template's `reasoning_effort`.
void ReadOutputConfig(ObjectReader& reader, absl::string_view body, ObjectWriter& variables,
                      v1::GenerateRequest& generate) {
  if (const json* config = reader.Object("output_config")) {
    ObjectReader fields(*config, "output_config");
    if (const auto effort = fields.String("effort")) variables.Add("reasoning_effort", *effort);
    ReadFormat(fields, RawMember(body, {"output_config", "format", "schema"}), "format", generate);
    reader.Fail(fields.Finish());
  }
  ReadFormat(reader, RawMember(body, {"output_format", "schema"}), "output_format", generate);
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
  ReadTurns(reader, body, chat);
  request.tools.tools = ReadOffer(reader, body);
  ReadChoice(reader, request.tools);
  if (reader.ok() && !request.tools.tools.empty()) {
    chat.set_tools_json(ToolsJson(request.tools.tools));
  }
  ObjectWriter variables;
  ReadThinking(reader, variables);
  ReadOutputConfig(reader, body, variables, request.generate);
  if (!variables.empty()) chat.set_variables_json(variables.Text());
  // What may be forgotten of a long conversation: nothing is.
  reader.PassOver({"context_management"});
  if (const json* servers = reader.Array("mcp_servers"); servers != nullptr && !servers->empty()) {
    reader.Refuse({"mcp_servers"}, kUnsupported);
  }
  reader.Refuse({"container"}, kUnsupported);
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
  reader.PassOver({"inference_geo", "metadata"});
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
