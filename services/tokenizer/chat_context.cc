#include "services/tokenizer/chat_context.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "services/tokenizer/chat_json.h"
#include "services/tokenizer/text/strings.h"

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
  std::optional<Json> json = ParseChatJson(text);
  if (!json.has_value() || (is_object ? !json->is_object() : !json->is_array())) {
    return Reject(field, is_object ? "a JSON object" : "a JSON array");
  }
  return *std::move(json);
}

absl::StatusOr<Json> MessageOf(const v1::ChatMessage& message, int index) {
  Json made = {{"role", message.role()}, {"content", message.content()}};
  if (message.extra_json().empty()) return made;
  absl::StatusOr<Json> extra =
      ParseField(StrCat("messages[", index, "].extra_json"), message.extra_json(), true);
  if (!extra.ok()) return extra.status();
  for (auto& [name, value] : extra->items()) {
    if (name == "role" || name == "content") {
      made[name] = std::move(value);
    } else {
      AppendMember(made, name, std::move(value));
    }
  }
  return made;
}

// "" where there is none.
std::string TextMember(const Json& object, const char* name) {
  const auto member = object.find(name);
  return member != object.end() && member->is_string() ? member->get<std::string>() : "";
}

// Which function each call of an assistant's message is to, by its id.
class CallNames {
 public:
  void Note(const Json& message) {
    const auto calls = message.find("tool_calls");
    if (calls == message.end() || !calls->is_array()) return;
    for (const Json& call : *calls) {
      if (!call.is_object()) continue;
      const auto function = call.find("function");
      const bool is_whole = function != call.end() && function->is_object();
      if (is_whole) names_[TextMember(call, "id")] = TextMember(*function, "name");
    }
  }

  void Name(Json& message) const {
    if (TextMember(message, "role") != "tool" || message.contains("name")) return;
    const auto found = names_.find(TextMember(message, "tool_call_id"));
    if (found != names_.end() && !found->second.empty()) {
      AppendMember(message, "name", found->second);
    }
  }

 private:
  absl::flat_hash_map<std::string, std::string> names_;
};

bool HasContent(const Json& message) {
  const auto content = message.find("content");
  if (content == message.end() || content->is_null()) return false;
  return !content->is_string() ||
         content->get_ref<const std::string&>().find_first_not_of(" \t\r\n") != std::string::npos;
}

absl::Status AddMessages(const v1::ApplyChatTemplateRequest& request, Json& messages) {
  CallNames names;
  for (int i = 0; i < request.messages_size(); ++i) {
    absl::StatusOr<Json> message = MessageOf(request.messages(i), i);
    if (!message.ok()) return message.status();
    names.Note(*message);
    names.Name(*message);
    messages.push_back(*std::move(message));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Json> ChatContext(const v1::ApplyChatTemplateRequest& request) {
  Json context = {{"messages", Json::array()}, {"tools", nullptr}, {"documents", nullptr}};
  Json& messages = context["messages"];
  if (absl::Status status = AddMessages(request, messages); !status.ok()) return status;
  bool begins = !request.has_add_generation_prompt() || request.add_generation_prompt();
  if (request.continue_final_message()) {
    if (request.add_generation_prompt()) {
      return absl::InvalidArgumentError(
          "continue_final_message and add_generation_prompt contradict each other: the last "
          "message "
          "goes on, or another begins");
    }
    begins = !messages.empty() && !HasContent(messages.back());
    if (begins) messages.erase(messages.size() - 1);
  }
  if (!request.tools_json().empty()) {
    absl::StatusOr<Json> tools = ParseField("tools_json", request.tools_json(), false);
    if (!tools.ok()) return tools.status();
    context["tools"] = *std::move(tools);
  }
  context["add_generation_prompt"] = begins;
  if (request.variables_json().empty()) return context;
  absl::StatusOr<Json> variables = ParseField("variables_json", request.variables_json(), true);
  if (!variables.ok()) return variables.status();
  for (auto& [name, value] : variables->items()) {
    if (name == "messages" || name == "tools" || name == "add_generation_prompt") {
      return absl::InvalidArgumentError(
          StrCat("variables_json has ", Quoted(name), "; accepted: what has no field of its own"));
    }
    if (name == "documents") {
      context[name] = std::move(value);
    } else {
      AppendMember(context, name, std::move(value));
    }
  }
  return context;
}

}  // namespace sluice
