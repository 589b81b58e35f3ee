#include "services/gateway/tool_calls/python_calls.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "services/gateway/json/json_text.h"

namespace sluice::gateway {
namespace {

using nlohmann::json;

// Every method is false, or empty, where the text is not what it looks for; the parser then stops.
class Parser {
 public:
  explicit Parser(absl::string_view text) : text_(text) {}

  std::optional<std::vector<ToolCall>> Calls() {
    std::vector<ToolCall> calls;
    const bool in_list = Take('[');
    do {
      std::optional<ToolCall> call = Call();
      if (!call.has_value()) return std::nullopt;
      calls.push_back(*std::move(call));
      Take(',');
      Skip();
    } while (at_ < text_.size() && text_[at_] != ']');
    if (in_list && !Take(']')) return std::nullopt;
    Skip();
    if (at_ < text_.size()) return std::nullopt;
    return calls;
  }

 private:
  void Skip() {
    while (at_ < text_.size() && absl::ascii_isspace(static_cast<uint8_t>(text_[at_]))) ++at_;
  }
  bool Take(char c) {
    Skip();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  std::string Name() {
    Skip();
    const size_t begin = at_;
    while (at_ < text_.size() && (absl::ascii_isalnum(static_cast<uint8_t>(text_[at_])) ||
                                  text_[at_] == '_' || text_[at_] == '.' || text_[at_] == '-')) {
      ++at_;
    }
    return std::string(text_.substr(begin, at_ - begin));
  }

  std::optional<ToolCall> Call() {
    ToolCall call = {.name = Name()};
    if (call.name.empty() || !Take('(')) return std::nullopt;
    json arguments = json::object();
    while (!Take(')')) {
      const std::string key = Name();
      if (key.empty() || !Take('=')) return std::nullopt;
      std::optional<json> value = Value(0);
      if (!value.has_value()) return std::nullopt;
      arguments[key] = *std::move(value);
      if (!Take(',') && !Next(')')) return std::nullopt;
    }
    call.arguments = ToJson(arguments);
    return call;
  }

  bool Next(char c) {
    Skip();
    return at_ < text_.size() && text_[at_] == c;
  }

  std::optional<json> Value(int depth) {
    Skip();
    if (at_ == text_.size() || depth > kMaxJsonDepth) return std::nullopt;
    const char c = text_[at_];
    if (c == '"' || c == '\'') return String();
    if (c == '[' || c == '(') return List(c == '[' ? ']' : ')', depth);
    if (c == '{') return Dictionary(depth);
    return Word();
  }

  std::optional<json> List(char end, int depth) {
    ++at_;
    json list = json::array();
    while (!Take(end)) {
      std::optional<json> value = Value(depth + 1);
      if (!value.has_value()) return std::nullopt;
      list.push_back(*std::move(value));
      if (!Take(',') && !Next(end)) return std::nullopt;
    }
    return list;
  }

  std::optional<json> Dictionary(int depth) {
    ++at_;
    json object = json::object();
    while (!Take('}')) {
      std::optional<json> key = Value(depth + 1);
      if (!key.has_value() || !key->is_string() || !Take(':')) return std::nullopt;
      std::optional<json> value = Value(depth + 1);
      if (!value.has_value()) return std::nullopt;
      object[key->get<std::string>()] = *std::move(value);
      if (!Take(',') && !Next('}')) return std::nullopt;
    }
    return object;
  }

  std::optional<json> String() {
    const char quote = text_[at_++];
    std::string value;
    while (at_ < text_.size() && text_[at_] != quote) {
      char c = text_[at_++];
      if (c == '\\' && at_ < text_.size()) {
        c = text_[at_++];
        c = c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c;
      }
      value += c;
    }
    if (at_ == text_.size()) return std::nullopt;
    ++at_;
    return value;
  }

  // A number, or one of the three words.
  std::optional<json> Word() {
    const size_t begin = at_;
    while (at_ < text_.size() && (absl::ascii_isalnum(static_cast<uint8_t>(text_[at_])) ||
                                  text_[at_] == '.' || text_[at_] == '-' || text_[at_] == '+')) {
      ++at_;
    }
    const std::string word(text_.substr(begin, at_ - begin));
    if (word == "True" || word == "true") return true;
    if (word == "False" || word == "false") return false;
    if (word == "None" || word == "null") return json(nullptr);
    json number = json::parse(word, nullptr, /*allow_exceptions=*/false);
    if (!number.is_number()) return std::nullopt;
    return number;
  }

  const absl::string_view text_;
  size_t at_ = 0;
};

}  // namespace

std::vector<ToolCall> ParsePythonCalls(absl::string_view text) {
  return Parser(text).Calls().value_or(std::vector<ToolCall>());
}

}  // namespace sluice::gateway
