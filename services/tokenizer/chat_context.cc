#include "services/tokenizer/chat_context.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "services/tokenizer/strings.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

// Deeper JSON is refused before it is parsed: the parser's recursion has no bound of its own.
constexpr int kMaxDepth = 200;

bool IsTooDeep(const std::string& text) {
  int depth = 0;
  bool in_string = false;
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (in_string && c == '\\') ++at;
    if (c == '"') in_string = !in_string;
    if (in_string) continue;
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    if (depth > kMaxDepth) return true;
  }
  return false;
}

absl::Status Reject(const std::string& field, std::string_view accepted) {
  return absl::InvalidArgumentError(StrCat(field, " is not ", accepted));
}

absl::StatusOr<Json> ParseField(const std::string& field, const std::string& text, bool is_object) {
  if (IsTooDeep(text)) {
    return absl::InvalidArgumentError(
        StrCat(field, " nests too deeply; accepted: ", kMaxDepth, " levels"));
  }
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (is_object ? !json.is_object() : !json.is_array()) {
    return Reject(field, is_object ? "a JSON object" : "a JSON array");
  }
  return json;
}

absl::StatusOr<Json> MessageOf(const v1::ChatMessage& message, int index) {
  Json made = {{"role", message.role()}, {"content", message.content()}};
  if (message.extra_json().empty()) return made;
  absl::StatusOr<Json> extra =
      ParseField(StrCat("messages[", index, "].extra_json"), message.extra_json(), true);
  if (!extra.ok()) return extra.status();
  for (auto& [name, value] : extra->items()) made[name] = std::move(value);
  return made;
}

}  // namespace

absl::StatusOr<Json> ChatContext(const v1::ApplyChatTemplateRequest& request) {
  Json context = {{"messages", Json::array()}, {"tools", nullptr}, {"documents", nullptr}};
  for (int i = 0; i < request.messages_size(); ++i) {
    absl::StatusOr<Json> message = MessageOf(request.messages(i), i);
    if (!message.ok()) return message.status();
    context["messages"].push_back(*std::move(message));
  }
  if (!request.tools_json().empty()) {
    absl::StatusOr<Json> tools = ParseField("tools_json", request.tools_json(), false);
    if (!tools.ok()) return tools.status();
    context["tools"] = *std::move(tools);
  }
  context["add_generation_prompt"] =
      !request.has_add_generation_prompt() || request.add_generation_prompt();
  if (request.variables_json().empty()) return context;
  absl::StatusOr<Json> variables = ParseField("variables_json", request.variables_json(), true);
  if (!variables.ok()) return variables.status();
  for (auto& [name, value] : variables->items()) {
    if (name == "messages" || name == "tools" || name == "add_generation_prompt") {
      return absl::InvalidArgumentError(
          StrCat("variables_json has ", Quoted(name), "; accepted: what has no field of its own"));
    }
    context[name] = std::move(value);
  }
  return context;
}

}  // namespace sluice
