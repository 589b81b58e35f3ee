#include "services/tokenizer/template_history.h"

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "services/tokenizer/jinja/spelled_number.h"
#include "services/tokenizer/text/strings.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// A conversation with a call, whose arguments are the object or its text.
Json Probe(bool as_text) {
  const Json arguments = {{"key", "value"}};
  const Json function = {{"name", "probe"},
                         {"arguments", as_text ? Json(arguments.dump()) : arguments}};
  const Json call = {{"id", "aaaaaaaaa"}, {"type", "function"}, {"function", function}};
  Json messages = Json::array();
  messages.push_back({{"role", "user"}, {"content", "x"}});
  messages.push_back({{"role", "assistant"}, {"content", ""}, {"tool_calls", Json::array({call})}});
  return {{"messages", std::move(messages)},
          {"tools", nullptr},
          {"documents", nullptr},
          {"add_generation_prompt", false}};
}

absl::StatusOr<jinja::Rendering> Rendered(const jinja::Template& compiled, const Json& variables) {
  jinja::Context context{.untrusted = &variables};
  for (const char* name : {"bos_token", "eos_token"}) context.trusted[name] = "";
  return compiled.Render(context);
}

bool Renders(const jinja::Template& compiled, const Json& variables) {
  return Rendered(compiled, variables).ok();
}

// Whether results of calls are written in the turn of the calls, and those that come as messages of
// their own are not.
bool ReadsToolResponses(std::string_view source, const jinja::Template& compiled) {
  if (!Contains(source, "tool_responses")) return false;
  Json variables = Probe(/*as_text=*/false);
  variables["messages"].push_back(
      {{"role", "tool"}, {"tool_call_id", "aaaaaaaaa"}, {"name", "probe"}, {"content", "x"}});
  const auto rendered = Rendered(compiled, variables);
  return rendered.ok() && !Contains(rendered->text, "<|tool_response>");
}

// The calls of a turn; nullptr where it has none.
Json* CallsOf(Json& message) {
  if (!message.is_object()) return nullptr;
  const auto calls = message.find("tool_calls");
  if (calls == message.end() || !calls->is_array() || calls->empty()) return nullptr;
  return &*calls;
}

Json* FunctionOf(Json& call) {
  if (!call.is_object()) return nullptr;
  const auto function = call.find("function");
  return function != call.end() && function->is_object() ? &*function : nullptr;
}

std::string TextOf(const Json& object, const char* name) {
  if (!object.is_object()) return "";
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// As Python's json.dumps writes it, which is what templates' own tojson does.
std::string ArgumentText(const Json& arguments) {
  if (arguments.is_object()) {
    std::string text = "{";
    for (const auto& [name, value] : arguments.items()) {
      StrAppend(&text, text.size() > 1 ? ", " : "", Json(name).dump(), ": ", ArgumentText(value));
    }
    return text + "}";
  }
  if (arguments.is_array()) {
    std::string text = "[";
    for (const Json& value : arguments) {
      StrAppend(&text, text.size() > 1 ? ", " : "", ArgumentText(value));
    }
    return text + "]";
  }
  if (arguments.is_binary()) return jinja::SpellingOf(arguments);
  return arguments.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void SetThinking(Json& message) {
  if (!message.is_object() || message.contains("thinking")) return;
  const std::string reasoning = TextOf(message, "reasoning_content");
  if (!reasoning.empty()) message["thinking"] = reasoning;
}

// What the model wrote before the calls of a turn.
void SetToolPlan(Json& message) {
  if (CallsOf(message) == nullptr || message.contains("tool_plan")) return;
  const std::string reasoning = TextOf(message, "reasoning_content");
  const std::string content = TextOf(message, "content");
  message["tool_plan"] =
      StrCat(reasoning, reasoning.empty() || content.empty() ? "" : "\n", content);
}

// An empty text as a part of one, for a template that looks into the first part whatever there is.
void SetEmptyPart(Json& message) {
  if (!message.is_object() || TextOf(message, "role") != "assistant") return;
  const auto content = message.find("content");
  if (content != message.end() && !content->is_null() && *content != "") return;
  message["content"] = Json::array({{{"type", "text"}, {"text", ""}}});
}

void WriteArgumentsAsText(Json& message) {
  Json* calls = CallsOf(message);
  if (calls == nullptr) return;
  for (Json& call : *calls) {
    Json* function = FunctionOf(call);
    if (function == nullptr) continue;
    const auto arguments = function->find("arguments");
    if (arguments != function->end() && !arguments->is_string()) {
      *arguments = ArgumentText(*arguments);
    }
  }
}

// Gives calls their numbers, and results the ids of the calls that they answer.
void NumberCalls(Json& messages) {
  std::map<std::string, std::string> ids;
  int number = 0;
  for (Json& message : messages) {
    if (Json* calls = CallsOf(message)) {
      for (Json& call : *calls) {
        Json* function = FunctionOf(call);
        if (function == nullptr) continue;
        std::string id = StrCat("functions.", TextOf(*function, "name"), ":", number++);
        ids[TextOf(call, "id")] = id;
        call["id"] = std::move(id);
      }
    }
    const auto answered = ids.find(TextOf(message, "tool_call_id"));
    if (message.is_object() && message.contains("tool_call_id") && answered != ids.end()) {
      message["tool_call_id"] = answered->second;
    }
  }
}

// A turn's text before its calls is reasoning to a template that has one place for both.
void JoinTextAndThinking(Json& message) {
  const std::string thinking = TextOf(message, "thinking");
  const std::string content = TextOf(message, "content");
  if (thinking.empty() || content.empty()) return;
  message["thinking"] = StrCat(thinking, "\n", content);
  message["content"] = "";
}

// The results that follow a turn, by the ids of its calls.
class Results {
 public:
  // Those from `begin` on.
  Results(Json& messages, size_t begin) {
    for (end_ = begin; end_ < messages.size() && TextOf(messages[end_], "role") == "tool"; ++end_) {
      results_.push_back(std::move(messages[end_]));
    }
  }

  // Appends those of the call to `messages`, and removes them.
  void Move(const std::string& id, Json& messages) {
    for (Json& result : results_) {
      if (!result.is_null() && TextOf(result, "tool_call_id") == id) {
        messages.push_back(std::exchange(result, nullptr));
      }
    }
  }
  void MoveRest(Json& messages) {
    for (Json& result : results_) {
      if (!result.is_null()) messages.push_back(std::move(result));
    }
  }

  size_t end() const { return end_; }

 private:
  Json results_ = Json::array();
  size_t end_ = 0;
};

void MoveResultsIntoTurns(Json& messages) {
  Json moved = Json::array();
  std::map<std::string, std::string> names;  // by the ids of the last turn's calls
  for (Json& message : messages) {
    if (TextOf(message, "role") != "tool" || names.empty()) {
      names.clear();
      if (Json* calls = CallsOf(message)) {
        for (Json& call : *calls) {
          if (Json* function = FunctionOf(call))
            names[TextOf(call, "id")] = TextOf(*function, "name");
        }
      }
      moved.push_back(std::move(message));
      continue;
    }
    const auto named = names.find(TextOf(message, "tool_call_id"));
    moved.back()["tool_responses"].push_back(
        {{"name", named != names.end() ? named->second : TextOf(message, "name")},
         {"response", message.contains("content") ? message["content"] : Json("")}});
  }
  messages = std::move(moved);
}

void SplitTurns(Json& messages) {
  Json split = Json::array();
  for (size_t i = 0; i < messages.size(); ++i) {
    Json& message = messages[i];
    Json* calls = CallsOf(message);
    if (calls == nullptr) {
      split.push_back(std::move(message));
      continue;
    }
    JoinTextAndThinking(message);
    if (calls->size() == 1) {
      split.push_back(std::move(message));
      continue;
    }
    const Json all = std::exchange(*calls, Json::array());
    Results results(messages, i + 1);
    for (const Json& call : all) {
      Json turn = message;
      turn["tool_calls"] = Json::array({call});
      split.push_back(std::move(turn));
      results.Move(TextOf(call, "id"), split);
      // The reasoning was before the first.
      message.erase("thinking");
      message.erase("reasoning_content");
      message["content"] = "";
    }
    results.MoveRest(split);
    i = results.end() - 1;
  }
  messages = std::move(split);
}

}  // namespace

TemplateHistory::TemplateHistory(std::string_view source, const jinja::Template& compiled)
    : reads_thinking_(Contains(source, ".thinking") || Contains(source, "\"thinking\"") ||
                      Contains(source, "'thinking'")),
      reads_tool_plan_(Contains(source, ".tool_plan")),
      reads_first_part_(Contains(source, ".content[0].")),
      reads_tool_responses_(ReadsToolResponses(source, compiled)),
      wants_argument_text_(Contains(source, "arguments") &&
                           !Renders(compiled, Probe(/*as_text=*/false)) &&
                           Renders(compiled, Probe(/*as_text=*/true))),
      numbers_calls_(Contains(source, "<|tool_call_begin|>")),
      takes_one_call_(Contains(source, "<|channel|>") && Contains(source, "tool_calls[0]")) {}

void TemplateHistory::Adapt(nlohmann::ordered_json& messages) const {
  if (!messages.is_array()) return;
  for (Json& message : messages) {
    if (reads_thinking_) SetThinking(message);
    if (reads_tool_plan_) SetToolPlan(message);
    if (reads_first_part_) SetEmptyPart(message);
    if (wants_argument_text_) WriteArgumentsAsText(message);
  }
  if (numbers_calls_) NumberCalls(messages);
  if (reads_tool_responses_) MoveResultsIntoTurns(messages);
  if (takes_one_call_) SplitTurns(messages);
}

}  // namespace sluice
