#include "services/gateway/openai/chat_request.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "services/gateway/json/json_text.h"
#include "services/gateway/json/object_reader.h"
#include "services/gateway/json/object_writer.h"
#include "services/gateway/json/raw_member.h"
#include "services/gateway/openai/ignored_fields.h"
#include "services/gateway/openai/tools.h"

namespace sluice::gateway::openai {
namespace {

using nlohmann::json;

// Stands in a tool's result for what a model of text can't see, so that the conversation goes on.
constexpr char kUnseen[] = "[image: not shown, this model reads text]";

bool IsImage(absl::string_view type) { return type == "image_url" || type == "input_image"; }

// The text of an array of parts. Each is to be text: a model of text sees nothing else. Images in
// the results of tools are no user's wish, and are told of.
absl::StatusOr<std::string> TextOfParts(const json& parts, const std::string& path,
                                        bool is_result) {
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i) {
    ObjectReader part(parts[i], absl::StrCat(path, "[", i, "]"));
    const std::string type = part.String("type").value_or("");
    if (type == "refusal") {
      text += part.String("refusal").value_or("");
    } else if (type == "text") {
      if (i > 0) text += '\n';
      text += part.String("text").value_or("");
      part.PassOver({"annotations", "cache_control"});
    } else if (is_result && IsImage(type)) {
      if (i > 0) text += '\n';
      text += kUnseen;
      continue;
    } else if (part.ok()) {
      part.Fail("type", "unsupported_value",
                absl::StrCat("Content of type '", type, "' is not supported; accepted: 'text'."));
    }
    if (absl::Status status = part.Finish(); !status.ok()) return status;
  }
  return text;
}

absl::StatusOr<std::optional<std::string>> ReadContent(ObjectReader& message,
                                                       bool is_result = false) {
  const json* content = message.Any("content");
  if (content == nullptr) return std::nullopt;
  if (content->is_string()) return content->get<std::string>();
  if (content->is_array()) return TextOfParts(*content, message.PathOf("content"), is_result);
  return ParameterError(message.PathOf("content"), "invalid_type",
                        absl::StrCat("Invalid type for '", message.PathOf("content"),
                                     "': expected a string or an array of parts."));
}

// Templates write arguments as JSON themselves, so they get the object rather than its text, as it
// was written: the model is to see what it wrote. `raw` is the text of `function`.
std::string ReadArguments(ObjectReader& function, absl::string_view raw) {
  const json* arguments = function.Any("arguments");
  if (arguments == nullptr) return "{}";
  if (arguments->is_object()) {
    const std::optional<absl::string_view> written = RawMember(raw, {"arguments"});
    return written.has_value() ? std::string(*written) : ToJson(*arguments);
  }
  const std::string text = function.String("arguments").value_or("");
  if (absl::StripAsciiWhitespace(text).empty()) return "{}";
  return ParseJson(text).ok() ? text : ToJson(text);
}

// The calls as chat templates know them, as JSON. `raw` is the text of `calls`.
absl::StatusOr<std::string> ReadToolCalls(const json& calls, absl::string_view raw,
                                          const std::string& path) {
  std::vector<std::string> result;
  const std::vector<absl::string_view> elements = RawElements(raw);
  for (size_t i = 0; i < calls.size(); ++i) {
    ObjectReader call(calls[i], absl::StrCat(path, "[", i, "]"));
    const std::string id = call.String("id").value_or("");
    const std::string type = call.String("type").value_or("function");
    const json* function = call.Object("function");
    call.PassOver(kIgnoredCallFields);
    if (type != "function" || function == nullptr) {
      call.Fail("function", "invalid_value",
                "A tool call must be of type 'function' and have one.");
    }
    if (absl::Status status = call.Finish(); !status.ok()) return status;
    ObjectReader fields(*function, call.PathOf("function"));
    const std::string name = fields.String("name").value_or("");
    const absl::string_view element = i < elements.size() ? elements[i] : "";
    const std::string arguments =
        ReadArguments(fields, RawMember(element, {"function"}).value_or(""));
    fields.PassOver(kIgnoredCallFields);
    if (absl::Status status = fields.Finish(); !status.ok()) return status;
    const std::string made =
        ObjectWriter().Add("name", name).AddText("arguments", arguments).Text();
    result.push_back(
        ObjectWriter().Add("id", id).Add("type", "function").AddText("function", made).Text());
  }
  return absl::StrCat("[", absl::StrJoin(result, ","), "]");
}

std::string TemplateRole(const std::string& role) {
  return role == "developer" ? "system" : role;  // what OpenAI's newer models call it
}

// `raw` is the text of `object`.
absl::Status ReadMessage(const json& object, absl::string_view raw, const std::string& path,
                         v1::ChatMessage& message) {
  ObjectReader reader(object, path);
  const std::string role = reader.String("role").value_or("");
  if (reader.ok() && role.empty()) {
    return ParameterError(path + ".role", "missing_required_parameter",
                          absl::StrCat("Missing required parameter: '", path, ".role'."));
  }
  ObjectWriter extra;
  absl::StatusOr<std::optional<std::string>> content = ReadContent(reader, role == "tool");
  if (!content.ok()) return content.status();
  if (const json* calls = reader.Array("tool_calls"); calls != nullptr && !calls->empty()) {
    absl::StatusOr<std::string> read = ReadToolCalls(
        *calls, RawMember(raw, {"tool_calls"}).value_or(""), reader.PathOf("tool_calls"));
    if (!read.ok()) return read.status();
    extra.AddText("tool_calls", *read);
  }
  for (const char* name : {"name", "tool_call_id"}) {
    if (const auto value = reader.String(name)) extra.Add(name, *value);
  }
  // What vLLM and others call it today.
  const std::optional<std::string> reasoning = reader.String("reasoning");
  const std::optional<std::string> thought = reader.String("reasoning_content");
  if (thought.has_value() || reasoning.has_value()) {
    extra.Add("reasoning_content", thought.has_value() ? *thought : *reasoning);
  }
  const std::optional<std::string> refusal = reader.String("refusal");
  reader.PassOver(kIgnoredMessageFields);
  reader.Refuse({"audio", "function_call"}, "this server does not support it");
  if (absl::Status status = reader.Finish(); !status.ok()) return status;
  if (!content->has_value() && role != "assistant") {
    return ParameterError(path + ".content", "missing_required_parameter",
                          absl::StrCat("Missing required parameter: '", path, ".content'."));
  }
  message.set_role(TemplateRole(role));
  message.set_content(content->value_or(refusal.value_or("")));
  if (!extra.empty()) message.set_extra_json(extra.Text());
  return absl::OkStatus();
}

// What templates may look at besides the messages, as vLLM hands it on. `text` is the body.
void ReadTemplateVariables(ObjectReader& reader, absl::string_view text, v1::Chat& chat) {
  const std::optional<std::string> effort = reader.String("reasoning_effort");
  const std::optional<bool> thinks = reader.Bool("enable_thinking");
  ObjectWriter variables;
  if (reader.Object("chat_template_kwargs") != nullptr) {
    const auto raw = RawMember(text, {"chat_template_kwargs"});
    for (const auto& [name, value] : RawMembers(raw.value_or(""))) {
      const bool is_said_otherwise = (effort.has_value() && name == "reasoning_effort") ||
                                     (thinks.has_value() && name == "enable_thinking");
      if (!is_said_otherwise) variables.AddText(name, value);
    }
  }
  if (effort.has_value()) variables.Add("reasoning_effort", *effort);
  if (thinks.has_value()) variables.Add("enable_thinking", *thinks);
  if (!variables.empty()) chat.set_variables_json(variables.Text());
  if (const auto begins = reader.Bool("add_generation_prompt")) {
    chat.set_add_generation_prompt(*begins);
  }
  chat.set_continue_final_message(reader.Bool("continue_final_message").value_or(false));
}

void ReadLengths(ObjectReader& reader, ChatRequest& request) {
  const auto old_name = reader.Integer("max_tokens", 1, kMaxInt32);
  const auto new_name = reader.Integer("max_completion_tokens", 1, kMaxInt32);
  if (old_name.has_value() && new_name.has_value() && *old_name != *new_name) {
    reader.Fail("max_completion_tokens", "invalid_value",
                absl::StrCat("'max_completion_tokens' is ", *new_name, " and 'max_tokens' ",
                             *old_name, ": they mean the same and contradict each other."));
  }
  if (const auto value = new_name.has_value() ? new_name : old_name) {
    request.generate.set_max_tokens(static_cast<int32_t>(*value));
  }
  if (new_name.has_value()) request.max_tokens_name = "max_completion_tokens";
}

void ReadLogprobs(ObjectReader& reader, ChatRequest& request) {
  request.logprobs = reader.Bool("logprobs").value_or(false);
  const auto top = reader.Integer("top_logprobs", 0, 20);
  if (top.has_value() && !request.logprobs) {
    reader.Fail("top_logprobs", "invalid_value", "'top_logprobs' needs 'logprobs' to be true.");
  }
  if (request.logprobs) request.generate.set_logprobs(static_cast<int32_t>(top.value_or(0)));
}

// "Predicted outputs": a text that much of the answer is expected to be, in parts or as one.
std::string ReadPrediction(ObjectReader& reader, const v1::GenerateRequest& generate) {
  const json* prediction = reader.Object("prediction");
  if (prediction == nullptr) return "";
  ObjectReader fields(*prediction, reader.PathOf("prediction"));
  const std::string type = fields.String("type").value_or("");
  if (fields.ok() && type != "content") {
    fields.Fail("type", "invalid_value",
                absl::StrCat("Invalid value: '", type, "'. Supported values are: 'content'."));
  }
  const absl::StatusOr<std::optional<std::string>> content = ReadContent(fields);
  if (!content.ok()) {
    fields.Fail(content.status());
  } else if (!content->has_value()) {
    fields.Fail("content", "missing_required_parameter",
                "Missing required parameter: 'prediction.content'.");
  }
  reader.Fail(fields.Finish());
  if (generate.drafts().decline() || generate.has_beams()) {
    reader.Fail(
        "prediction", "invalid_value",
        "'prediction' and a search by beams or 'decline_drafts' contradict each other: nothing "
        "is drafted there.");
  }
  return content.ok() ? content->value_or("") : "";
}

// Parameters that may be there as long as they ask for nothing.
void ReadNeutralChatParameters(ObjectReader& reader) {
  if (const json* modalities = reader.Array("modalities")) {
    if (*modalities != json::array({"text"})) {
      reader.Refuse({"modalities"}, "this server supports [\"text\"] alone");
    }
  }
  if (reader.Bool("store").value_or(false)) reader.Refuse({"store"}, "nothing is stored here");
  // The template writes what stands around the text itself, whatever is said of it.
  reader.PassOver({"add_special_tokens"});
  reader.Refuse({"audio", "function_call", "functions", "moderation", "web_search_options"},
                "this server does not support it");
}

}  // namespace

absl::Status ReadMessages(const json& messages, const MessageSource& source, v1::Chat& chat) {
  if (messages.empty()) {
    return ParameterError("messages", "empty_array",
                          "'messages' is empty: at least one is needed.");
  }
  const std::vector<absl::string_view> elements = RawElements(source.text);
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string path =
        i < source.paths.size() ? source.paths[i] : absl::StrCat("messages[", i, "]");
    const absl::Status status = ReadMessage(messages[i], i < elements.size() ? elements[i] : "",
                                            path, *chat.add_messages());
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

ToolChoice ReadChat(ObjectReader& reader, absl::string_view text, v1::Chat& chat) {
  if (const json* messages = reader.Array("messages")) {
    reader.Fail(
        ReadMessages(*messages, {.text = RawMember(text, {"messages"}).value_or("")}, chat));
  } else {
    reader.Fail("messages", "missing_required_parameter",
                "Missing required parameter: 'messages'.");
  }
  ToolChoice tools = ReadTools(reader, text, ToolLayout::kChat, chat);
  ReadTemplateVariables(reader, text, chat);
  return tools;
}

absl::StatusOr<ChatRequest> ReadChatRequest(const json& body, absl::string_view text) {
  ObjectReader reader(body);
  ChatRequest request;
  request.parameters = ReadGenerationParameters(reader, text, request.generate);
  request.tools = ReadChat(reader, text, *request.generate.mutable_chat());
  ReadLengths(reader, request);
  ReadLogprobs(reader, request);
  request.prediction = ReadPrediction(reader, request.generate);
  ReadNeutralChatParameters(reader);
  if (absl::Status status = reader.Finish(); !status.ok()) return status;
  return request;
}

}  // namespace sluice::gateway::openai
