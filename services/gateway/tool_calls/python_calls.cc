#include "services/gateway/tool_calls/python_calls.h"

#include <optional>
#include <string>
#include <utility>

#include "services/gateway/json/object_writer.h"
#include "services/gateway/tool_calls/python_literals.h"

namespace sluice::gateway {
namespace {

// Every method is false, or empty, where the text is not what it looks for; the parser then stops.
class Parser {
 public:
  explicit Parser(absl::string_view text) : reader_(text) {}

  std::optional<std::vector<ToolCall>> Calls() {
    const bool in_list = reader_.Take('[');
    do {
      if (!AddCall()) return std::nullopt;
      reader_.Take(',');
      reader_.SkipSpace();
    } while (!reader_.rest().empty() && !reader_.IsNext(']'));
    if (in_list && !reader_.Take(']')) return std::nullopt;
    reader_.SkipSpace();
    if (!reader_.rest().empty()) return std::nullopt;
    return std::move(calls_);
  }

 private:
  bool AddCall() {
    std::string name = reader_.TakeName();
    if (name.empty() || !reader_.Take('(')) return false;
    if (name == "print" && AddPrinted()) return true;
    ObjectWriter arguments;
    while (!reader_.Take(')')) {
      const std::string key = reader_.TakeName();
      if (key.empty() || !reader_.Take('=')) return false;
      const std::optional<std::string> value = reader_.TakeValue();
      if (!value.has_value()) return false;
      arguments.AddText(key, *value);
      if (!reader_.Take(',') && !reader_.IsNext(')')) return false;
    }
    calls_.push_back({std::move(name), arguments.Text()});
    return true;
  }

  // The calls in print(f(..), g(..)), as which Gemma writes what it wants to see; nothing is taken where
  // it prints something else.
  bool AddPrinted() {
    const absl::string_view before = reader_.rest();
    const size_t num_calls = calls_.size();
    bool is_read = !reader_.IsNext(')');
    while (is_read && !reader_.Take(')')) {
      is_read = AddCall() && (reader_.Take(',') || reader_.IsNext(')'));
    }
    if (is_read) return true;
    calls_.resize(num_calls);
    reader_.set_rest(before);
    return false;
  }

  PythonReader reader_;
  std::vector<ToolCall> calls_;
};

}  // namespace

std::vector<ToolCall> ParsePythonCalls(absl::string_view text) {
  return Parser(text).Calls().value_or(std::vector<ToolCall>());
}

}  // namespace sluice::gateway
