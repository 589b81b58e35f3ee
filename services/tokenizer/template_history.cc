#include "services/tokenizer/template_history.h"

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

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

bool Renders(const jinja::Template& compiled, const Json& variables) {
  jinja::Context context{.untrusted = &variables};
  for (const char* name : {"bos_token", "eos_token"}) context.trusted[name] = "";
  return compiled.Render(context).ok();
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
      wants_argument_text_(Contains(source, "arguments") &&
                           !Renders(compiled, Probe(/*as_text=*/false)) &&
                           Renders(compiled, Probe(/*as_text=*/true))),
      numbers_calls_(Contains(source, "<|tool_call_begin|>")),
      takes_one_call_(Contains(source, "<|channel|>") && Contains(source, "tool_calls[0]")) {}

void TemplateHistory::Adapt(nlohmann::ordered_json& messages) const {
  if (!messages.is_array()) return;
  for (Json& message : messages) {
    if (reads_thinking_) SetThinking(message);
    if (wants_argument_text_) WriteArgumentsAsText(message);
  }
  if (numbers_calls_) NumberCalls(messages);
  if (takes_one_call_) SplitTurns(messages);
}

}  // namespace sluice
