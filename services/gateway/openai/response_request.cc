#include "services/gateway/openai/response_request.h"

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "services/gateway/api/sampling_parameters.h"
#include "services/gateway/json/json_text.h"
#include "services/gateway/json/object_reader.h"
#include "services/gateway/openai/chat_request.h"
#include "services/gateway/openai/constraint.h"
#include "services/gateway/openai/ignored_fields.h"
#include "services/gateway/openai/tools.h"

namespace sluice::gateway::openai {
namespace {

using nlohmann::json;

// An item's content as that of a chat message: only the names of the parts' types differ.
json ChatContent(const json& content) {
  if (!content.is_array()) return content;
  json parts = json::array();
  for (json part : content) {
    const json type = part.is_object() ? part.value("type", json()) : json();
    if (type == "input_text" || type == "output_text") {
      part["type"] = "text";
      part.erase("logprobs");
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

// The texts of parts such as {"type": "reasoning_text", "text"}, one after the other.
std::string JoinedTexts(const json* parts) {
  std::string text;
  if (parts == nullptr || !parts->is_array()) return text;
  for (const json& part : *parts) {
    const json* value = nullptr;
    if (part.is_object() && part.contains("text")) value = &part["text"];
    if (value == nullptr || !value->is_string()) continue;
    absl::StrAppend(&text, text.empty() ? "" : "\n", value->get_ref<const std::string&>());
  }
  return text;
}

// Makes messages of items. What a model wrote in one turn comes as several items, one after the
// other (a thought, a text, calls), and is one message to a chat template.
class ItemReader {
 public:
  // Both grow by each message: where it came from is its path.
  ItemReader(json& messages, std::vector<std::string>& paths)
      : messages_(messages), paths_(paths) {}

  absl::Status Read(const json& value, const std::string& path) {
    ObjectReader item(value, path);
    const std::string type = item.String("type").value_or("message");
    item.PassOver({"id", "status", "phase"});
    if (type == "message") {
      ReadMessage(item);
    } else if (type == "function_call") {
      ReadCall(item);
    } else if (type == "function_call_output") {
      const json* output = item.Any("output");
      messages_.push_back({{"role", "tool"},
                           {"tool_call_id", item.String("call_id").value_or("")},
                           {"content", output != nullptr ? ChatContent(*output) : json("")}});
    } else if (type == "reasoning") {
      ReadThought(item);
    } else {
      item.Fail("type", "unsupported_value",
                absl::StrCat("Items of type '", type, "' are not supported."));
    }
    paths_.resize(messages_.size(), path);
    return item.Finish();
  }

 private:
  // The message of the assistant's turn that an item goes on with; a new one where the last message
  // is another's, or has one of `behind`, which stand behind what the item has.
  json& Turn(std::initializer_list<const char*> behind) {
    bool goes_on = !messages_.empty() && messages_.back()["role"] == "assistant";
    for (const char* member : behind) {
      goes_on = goes_on && !messages_.back().contains(member);
    }
    if (!goes_on) messages_.push_back({{"role", "assistant"}});
    return messages_.back();
  }

  void ReadMessage(ObjectReader& item) {
    const std::string role = item.String("role").value_or("");
    const json* content = item.Any("content");
    json text = content != nullptr ? ChatContent(*content) : json();
    if (role == "assistant") {
      Turn({"content", "tool_calls"})["content"] = std::move(text);
    } else {
      messages_.push_back({{"role", role}, {"content", std::move(text)}});
    }
  }

  void ReadCall(ObjectReader& item) {
    const json function = {{"name", item.String("name").value_or("")},
                           {"arguments", item.String("arguments").value_or("{}")}};
    Turn({})["tool_calls"].push_back({{"id", item.String("call_id").value_or("")},
                                      {"type", "function"},
                                      {"function", function}});
  }

  void ReadThought(ObjectReader& item) {
    item.PassOver({"encrypted_content"});
    std::string thought = JoinedTexts(item.Any("content"));
    const std::string summary = JoinedTexts(item.Any("summary"));
    if (thought.empty()) thought = summary;
    if (thought.empty()) return;
    Turn({"content", "tool_calls", "reasoning_content"})["reasoning_content"] = std::move(thought);
  }

  json& messages_;
  std::vector<std::string>& paths_;
};

// The conversation: instructions, then a text or items.
void ReadInput(ObjectReader& reader, v1::Chat& chat) {
  json messages = json::array();
  std::vector<std::string> paths;
  if (const auto instructions = reader.String("instructions")) {
    messages.push_back({{"role", "system"}, {"content", *instructions}});
    paths.emplace_back("instructions");
  }
  const json* input = reader.Any("input");
  if (input == nullptr) {
    return reader.Fail("input", "missing_required_parameter",
                       "Missing required parameter: 'input'.");
  }
  if (input->is_string()) {
    messages.push_back({{"role", "user"}, {"content", *input}});
    paths.emplace_back("input");
  } else if (!input->is_array() || (input->empty() && messages.empty())) {
    return reader.Fail("input", "invalid_type", "'input' must be a string or an array of items.");
  } else {
    ItemReader items(messages, paths);
    for (size_t i = 0; i < input->size(); ++i) {
      reader.Fail(items.Read((*input)[i], absl::StrCat("input[", i, "]")));
    }
  }
  // The arguments of calls are texts here, which are taken as they are.
  if (reader.ok()) reader.Fail(ReadMessages(messages, {.paths = paths}, chat));
}

void ReadSampling(ObjectReader& reader, v1::GenerateRequest& generate, json& echoed) {
  echoed["max_output_tokens"] = nullptr;
  ReadSamplingParameters(reader, *generate.mutable_sampling());
  for (const char* name : {"temperature", "top_p"}) {
    const json* value = reader.Any(name);
    echoed[name] = value != nullptr ? *value : json();
  }
  if (const auto value = reader.Integer("max_output_tokens", 1, kMaxInt32)) {
    echoed["max_output_tokens"] = *value;
    generate.set_max_tokens(static_cast<int32_t>(*value));
  }
}

bool IsOneOf(absl::string_view value, absl::Span<const char* const> accepted) {
  return std::find(accepted.begin(), accepted.end(), value) != accepted.end();
}

// A string that has no effect, but is to be one of these.
std::optional<std::string> ReadChoiceOf(ObjectReader& reader, const char* name,
                                        std::initializer_list<const char*> accepted) {
  std::optional<std::string> value = reader.String(name);
  if (!value.has_value() || IsOneOf(*value, accepted)) return value;
  reader.Fail(name, "invalid_value",
              absl::StrCat("Invalid value: '", *value, "'. Supported values are: '",
                           absl::StrJoin(accepted, "', '"), "'."));
  return std::nullopt;
}

// What responses may include besides; nothing of the kind is made here but log-probabilities, which
// are refused.
void ReadInclude(ObjectReader& reader) {
  const json* include = reader.Array("include");
  if (include == nullptr) return;
  constexpr const char* kNeverThere[] = {
      "code_interpreter_call.outputs", "computer_call_output.output.image_url",
      "file_search_call.results",      "message.input_image.image_url",
      "reasoning.encrypted_content",   "web_search_call.action.sources",
      "web_search_call.results"};
  for (const json& item : *include) {
    const std::string name = item.is_string() ? item.get<std::string>() : ToJson(item);
    if (IsOneOf(name, kNeverThere)) continue;
    return reader.Fail("include", "unsupported_value",
                       absl::StrCat("Unsupported value: '", name, "' can't be included here."));
  }
}

void ReadReasoning(ObjectReader& reader, v1::Chat& chat, json& echoed) {
  echoed["reasoning"] = {{"effort", nullptr}, {"summary", nullptr}};
  const json* reasoning = reader.Object("reasoning");
  if (reasoning == nullptr) return;
  ObjectReader fields(*reasoning, "reasoning");
  if (const auto effort = fields.String("effort")) {
    chat.set_variables_json(ToJson({{"reasoning_effort", *effort}}));
    echoed["reasoning"]["effort"] = *effort;
  }
  // Thoughts come as they are, in the content of items, and nobody sums them up.
  ReadChoiceOf(fields, "summary", {"auto", "concise", "detailed", "none"});
  ReadChoiceOf(fields, "generate_summary", {"auto", "concise", "detailed"});
  reader.Fail(fields.Finish());
}

void ReadText(ObjectReader& reader, absl::string_view body, v1::GenerateRequest& generate,
              json& echoed) {
  echoed["text"] = {{"format", {{"type", "text"}}}};
  const json* text = reader.Object("text");
  if (text == nullptr) return;
  echoed["text"].update(*text);
  ObjectReader fields(*text, "text");
  ReadTextFormat(fields, body, generate);
  ReadChoiceOf(fields, "verbosity", {"low", "medium", "high"});
  reader.Fail(fields.Finish());
}

// Parameters that may be there as long as they ask for what is done anyway.
void ReadNeutralResponseParameters(ObjectReader& reader) {
  if (reader.Bool("store").value_or(false)) reader.Refuse({"store"}, "nothing is stored here");
  if (reader.Bool("background").value_or(false)) {
    reader.Refuse({"background"}, "nothing is stored here");
  }
  // Nothing is ever cut: an input that is too long ends in context_length_exceeded.
  ReadChoiceOf(reader, "truncation", {"auto", "disabled"});
  ReadInclude(reader);
  if (reader.Integer("top_logprobs", 0, 20).value_or(0) > 0) {
    reader.Refuse({"top_logprobs"}, "this server supports 0 alone");
  }
  if (const json* options = reader.Object("stream_options")) {
    ObjectReader fields(*options, "stream_options");
    if (fields.Bool("include_obfuscation").value_or(false)) {
      fields.Refuse({"include_obfuscation"}, "this server does not support it");
    }
    reader.Fail(fields.Finish());
  }
  reader.Refuse({"previous_response_id", "conversation"},
                "nothing is stored here; send the whole input");
  reader.Refuse({"context_management", "max_tool_calls", "prompt"},
                "this server does not support it");
}

}  // namespace

absl::StatusOr<ResponseRequest> ReadResponseRequest(const json& body, absl::string_view text) {
  ObjectReader reader(body);
  ResponseRequest request;
  json& echoed = request.echoed;
  v1::Chat& chat = *request.generate.mutable_chat();
  request.model = reader.String("model").value_or("");
  request.stream = reader.Bool("stream").value_or(false);
  const json* instructions = reader.Any("instructions");
  echoed["instructions"] = instructions != nullptr ? *instructions : json();
  ReadInput(reader, chat);
  const json* tools = reader.Any("tools");
  const json* choice = reader.Any("tool_choice");
  echoed["tools"] = json::array();
  for (const json& tool : tools != nullptr && tools->is_array() ? *tools : json::array()) {
    if (!IsForeignTool(tool)) echoed["tools"].push_back(tool);
  }
  echoed["tool_choice"] = choice != nullptr ? *choice : json("auto");
  request.tools = ReadTools(reader, text, ToolLayout::kResponses, chat);
  echoed["parallel_tool_calls"] = request.tools.parallel;
  ReadSampling(reader, request.generate, echoed);
  const json* metadata = reader.Object("metadata");
  echoed["metadata"] = metadata != nullptr ? *metadata : json::object();
  ReadReasoning(reader, chat, echoed);
  const std::string tier = reader.String("service_tier").value_or("auto");
  if (tier == "priority") request.generate.set_priority(1);
  if (tier == "flex") request.generate.set_priority(-1);
  if (tier != "auto" && tier != "default" && tier != "priority" && tier != "flex") {
    reader.Fail("service_tier", "invalid_value", absl::StrCat("Invalid value: '", tier, "'."));
  }
  request.service_tier = tier == "auto" ? "default" : tier;
  echoed["service_tier"] = request.service_tier;
  ReadText(reader, text, request.generate, echoed);
  ReadNeutralResponseParameters(reader);
  reader.PassOver(kIgnoredParameters);
  if (absl::Status status = reader.Finish(); !status.ok()) return status;
  return request;
}

}  // namespace sluice::gateway::openai
