#include "services/gateway/openai/response_request.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "services/gateway/api/sampling_parameters.h"
#include "services/gateway/json/json_text.h"
#include "services/gateway/json/object_reader.h"
#include "services/gateway/openai/chat_request.h"
#include "services/gateway/openai/constraint.h"
#include "services/gateway/openai/tools.h"

namespace sluice::gateway::openai {
namespace {

using nlohmann::json;

// An item's content as that of a chat message: only the names of the parts' types differ.
json ChatContent(const json& content) {
  if (!content.is_array()) return content;
  json parts = json::array();
  for (json part : content) {
    if (part.is_object() && part.contains("type") &&
        (part["type"] == "input_text" || part["type"] == "output_text")) {
      part["type"] = "text";
      part.erase("logprobs");
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

absl::Status ReadItem(const json& value, const std::string& path, json& messages) {
  ObjectReader item(value, path);
  const std::string type = item.String("type").value_or("message");
  item.PassOver({"id", "status", "phase"});
  if (type == "message") {
    const json* content = item.Any("content");
    messages.push_back({{"role", item.String("role").value_or("")},
                        {"content", content != nullptr ? ChatContent(*content) : json()}});
  } else if (type == "function_call") {
    const json function = {{"name", item.String("name").value_or("")},
                           {"arguments", item.String("arguments").value_or("{}")}};
    messages.push_back({{"role", "assistant"},
                        {"tool_calls", json::array({{{"id", item.String("call_id").value_or("")},
                                                     {"type", "function"},
                                                     {"function", function}}})}});
  } else if (type == "function_call_output") {
    const json* output = item.Any("output");
    messages.push_back({{"role", "tool"},
                        {"tool_call_id", item.String("call_id").value_or("")},
                        {"content", output != nullptr ? ChatContent(*output) : json("")}});
  } else if (type == "reasoning") {
    item.PassOver(
        {"summary", "content", "encrypted_content"});  // templates leave earlier thoughts out
  } else {
    item.Fail("type", "unsupported_value",
              absl::StrCat("Items of type '", type, "' are not supported."));
  }
  return item.Finish();
}

// The conversation: instructions, then a text or items.
void ReadInput(ObjectReader& reader, v1::Chat& chat) {
  json messages = json::array();
  if (const auto instructions = reader.String("instructions")) {
    messages.push_back({{"role", "system"}, {"content", *instructions}});
  }
  const json* input = reader.Any("input");
  if (input == nullptr) {
    return reader.Fail("input", "missing_required_parameter",
                       "Missing required parameter: 'input'.");
  }
  if (input->is_string()) {
    messages.push_back({{"role", "user"}, {"content", *input}});
  } else if (!input->is_array() || input->empty()) {
    return reader.Fail("input", "invalid_type", "'input' must be a string or an array of items.");
  } else {
    for (size_t i = 0; i < input->size(); ++i) {
      reader.Fail(ReadItem((*input)[i], absl::StrCat("input[", i, "]"), messages));
    }
  }
  if (reader.ok()) reader.Fail(ReadMessages(messages, chat));
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

void ReadText(ObjectReader& reader, absl::string_view body, v1::GenerateRequest& generate,
              json& echoed) {
  echoed["text"] = {{"format", {{"type", "text"}}}};
  const json* text = reader.Object("text");
  if (text == nullptr) return;
  echoed["text"].update(*text);
  ObjectReader fields(*text, "text");
  ReadTextFormat(fields, body, generate);
  fields.Refuse({"verbosity"}, "this server does not support it");
  reader.Fail(fields.Finish());
}

// Parameters that may be there as long as they ask for what is done anyway.
void ReadNeutralResponseParameters(ObjectReader& reader) {
  if (reader.Bool("store").value_or(false)) reader.Refuse({"store"}, "nothing is stored here");
  if (reader.Bool("background").value_or(false)) {
    reader.Refuse({"background"}, "nothing is stored here");
  }
  const std::string truncation = reader.String("truncation").value_or("disabled");
  if (truncation != "disabled")
    reader.Refuse({"truncation"}, "this server supports 'disabled' alone");
  if (const json* include = reader.Array("include"); include != nullptr && !include->empty()) {
    reader.Refuse({"include"}, "this server has nothing to include");
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
  reader.Refuse({"context_management", "max_tool_calls", "prompt", "top_logprobs"},
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
  echoed["tools"] = tools != nullptr ? *tools : json::array();
  echoed["tool_choice"] = choice != nullptr ? *choice : json("auto");
  request.tools = ReadTools(reader, text, ToolLayout::kResponses, chat);
  echoed["parallel_tool_calls"] = request.tools.parallel;
  ReadSampling(reader, request.generate, echoed);
  const json* metadata = reader.Object("metadata");
  echoed["metadata"] = metadata != nullptr ? *metadata : json::object();
  if (const json* reasoning = reader.Object("reasoning")) {
    ObjectReader fields(*reasoning, "reasoning");
    if (const auto effort = fields.String("effort")) {
      chat.set_variables_json(ToJson({{"reasoning_effort", *effort}}));
    }
    fields.Refuse({"summary", "generate_summary"}, "this server does not support it");
    reader.Fail(fields.Finish());
  }
  const std::string tier = reader.String("service_tier").value_or("auto");
  if (tier == "priority") request.generate.set_priority(1);
  if (tier == "flex") request.generate.set_priority(-1);
  if (tier != "auto" && tier != "default" && tier != "priority" && tier != "flex") {
    reader.Fail("service_tier", "invalid_value", absl::StrCat("Invalid value: '", tier, "'."));
  }
  echoed["service_tier"] = tier == "auto" ? "default" : tier;
  ReadText(reader, text, request.generate, echoed);
  ReadNeutralResponseParameters(reader);
  reader.PassOver({"user", "safety_identifier", "prompt_cache_key", "prompt_cache_retention"});
  if (absl::Status status = reader.Finish(); !status.ok()) return status;
  return request;
}

}  // namespace sluice::gateway::openai
