#include "services/gateway/tool_calls/json_calls.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "services/gateway/json/json_text.h"
#include "services/gateway/json/raw_member.h"
#include "services/gateway/tool_calls/named_call.h"

namespace sluice::gateway {
namespace {

using nlohmann::json;

// Of the member that names the tool.
bool IsNameKey(absl::string_view key) { return key == "name" || key == "tool_name"; }

// One object, {"name": .., "arguments" or "parameters": {..} or its text}.
std::optional<ToolCallPiece> CallOf(absl::string_view text) {
  const absl::StatusOr<json> object = ParseJson(text);
  if (!object.ok() || !object->is_object()) return std::nullopt;
  const auto name = object->find(object->contains("name") ? "name" : "tool_name");
  if (name == object->end() || !name->is_string()) return std::nullopt;
  if (name->get_ref<const std::string&>().empty()) return std::nullopt;
  const char* const key = object->contains("arguments") ? "arguments" : "parameters";
  const json arguments = object->value(key, json());
  if (arguments.is_null()) return ToolCallPiece{name->get<std::string>(), "{}"};
  // As they were written: in their order, with their numbers' spelling.
  std::string written(RawMember(text, {key}).value_or("{}"));
  if (arguments.is_string()) written = arguments.get<std::string>();
  const absl::StatusOr<json> parsed = ParseJson(written);
  if (!parsed.ok() || !parsed->is_object()) return std::nullopt;
  return ToolCallPiece{name->get<std::string>(), std::move(written)};
}

// Reads what a call begins with. What it asks for and does not find is either not there yet, where
// the text has ended, or something else.
class HeadReader {
 public:
  explicit HeadReader(absl::string_view text) : text_(text), rest_(text) {}

  // The call's name, and where its arguments begin; nullopt where the text is not, or not yet, such
  // a beginning.
  std::optional<std::pair<std::string, size_t>> Read() {
    std::string name;
    std::string key;
    if (!Take('{') || !TakeString(&key)) return std::nullopt;
    if (key == "tool_call_id" &&
        !(Take(':') && TakeString(&name) && Take(',') && TakeString(&key))) {
      return std::nullopt;
    }
    if (!IsNameKey(key) || !Take(':') || !TakeString(&name) || !Take(',') || !TakeString(&key) ||
        !Take(':')) {
      return std::nullopt;
    }
    SkipSpace();
    const bool fits = !name.empty() && (key == "arguments" || key == "parameters");
    if (!fits || !absl::StartsWith(rest_, "{")) return std::nullopt;
    return std::make_pair(std::move(name), text_.size() - rest_.size());
  }

  bool has_ended() const { return rest_.empty(); }

 private:
  void SkipSpace() { rest_ = absl::StripLeadingAsciiWhitespace(rest_); }

  bool Take(char expected) {
    SkipSpace();
    if (rest_.empty() || rest_[0] != expected) return false;
    rest_.remove_prefix(1);
    return true;
  }

  bool TakeString(std::string* value) {
    SkipSpace();
    if (rest_.empty() || rest_[0] != '"') return false;
    size_t end = 1;
    while (end < rest_.size() && rest_[end] != '"') end += rest_[end] == '\\' ? 2 : 1;
    if (end >= rest_.size()) {
      rest_ = {};
      return false;
    }
    const absl::StatusOr<json> parsed = ParseJson(rest_.substr(0, end + 1));
    if (!parsed.ok()) return false;
    *value = parsed->get<std::string>();
    rest_.remove_prefix(end + 1);
    return true;
  }

  const absl::string_view text_;
  absl::string_view rest_;
};

}  // namespace

JsonCallReader::Result JsonCallReader::Read(std::string& text, bool at_end,
                                            std::vector<ToolCallPiece>& pieces) {
  Result result = Result::kNeedsMore;
  bool goes_on = true;
  while (goes_on) {
    switch (state_) {
      case State::kBetween:
        goes_on = ReadBetween(text, pieces, &result);
        break;
      case State::kHead:
        goes_on = ReadHead(text, at_end, pieces, &result);
        break;
      case State::kWhole:
        goes_on = ReadWhole(text, at_end, pieces, &result);
        break;
      case State::kArguments:
      case State::kTail:
        goes_on = ReadRest(text, at_end, pieces, &result);
        break;
    }
  }
  return at_end ? Result::kNoCall : result;
}

bool JsonCallReader::ReadBetween(std::string& text, std::vector<ToolCallPiece>& pieces,
                                 Result* result) {
  if (takes_names_) {
    const NamedCallHead head = NamedCallAt(text);
    if (head.verdict == NamedCallHead::Verdict::kMaybe) {
      *result = Result::kNeedsMore;
      return false;
    }
    if (head.verdict == NamedCallHead::Verdict::kCall) {
      Begin({head.name, ""}, pieces);
      text.erase(0, head.size);
      is_named_ = true;
      state_ = State::kArguments;
      return true;
    }
  }
  const size_t begin = std::min(text.find_first_not_of(" \t\r\n,;[]"), text.size());
  unclaimed_.append(text, 0, begin);
  text.erase(0, begin);
  if (takes_names_ && begin > 0 && !text.empty()) return true;  // a name may come now
  if (!text.empty() && text[0] == '{') {
    state_ = State::kHead;
    return true;
  }
  *result = text.empty() ? Result::kNeedsMore : Result::kNoCall;
  return false;
}

bool JsonCallReader::ReadHead(std::string& text, bool at_end, std::vector<ToolCallPiece>& pieces,
                              Result* result) {
  HeadReader reader(text);
  if (const auto head = reader.Read()) {
    Begin({head->first, ""}, pieces);
    is_named_ = false;
    text.erase(0, head->second);
    state_ = State::kArguments;
    return true;
  }
  if (reader.has_ended() && !at_end) {
    *result = Result::kNeedsMore;
    return false;
  }
  state_ = State::kWhole;
  return true;
}

bool JsonCallReader::ReadWhole(std::string& text, bool at_end, std::vector<ToolCallPiece>& pieces,
                               Result* result) {
  std::string rest = text;
  std::string object;
  depth_ = 0;
  in_string_ = escaped_ = false;
  const bool closed = ReadBrackets(rest, &object);
  if (!closed && !at_end) {
    *result = Result::kNeedsMore;
    return false;
  }
  const std::optional<ToolCallPiece> call = closed ? CallOf(object) : std::nullopt;
  if (!call.has_value()) {
    *result = Result::kNoCall;
    return false;
  }
  Begin(*call, pieces);
  text = std::move(rest);
  state_ = State::kBetween;
  return true;
}

bool JsonCallReader::ReadRest(std::string& text, bool at_end, std::vector<ToolCallPiece>& pieces,
                              Result* result) {
  std::string read;
  const bool closed = ReadBrackets(text, &read);
  if (state_ == State::kArguments && !read.empty()) {
    if (pieces.empty()) pieces.emplace_back();
    pieces.back().arguments += read;
  }
  if (!closed) {
    *result = Result::kNeedsMore;
    return false;
  }
  const bool is_malformed = depth_ > 0;
  if (state_ == State::kArguments && !is_malformed && !is_named_) {
    state_ = State::kTail;
    depth_ = 1;
  } else {
    state_ = State::kBetween;
  }
  return true;
}

void JsonCallReader::Begin(ToolCallPiece call, std::vector<ToolCallPiece>& pieces) {
  pieces.push_back(std::move(call));
  unclaimed_.clear();
  has_calls_ = true;
  depth_ = 0;
  in_string_ = escaped_ = false;
}

bool JsonCallReader::ReadBrackets(std::string& text, std::string* read) {
  size_t end = 0;
  bool closed = false;
  for (; end < text.size() && !closed; ++end) {
    const char c = text[end];
    if (in_string_) {
      in_string_ = escaped_ || c != '"';
      escaped_ = !escaped_ && c == '\\';
    } else if (c == '"') {
      in_string_ = true;
    } else if (c == '{' || c == '[') {
      ++depth_;
    } else if (c == '}' || c == ']') {
      closed = --depth_ <= 0;
    } else if (c == '<') {
      closed = true;
      break;
    }
  }
  read->append(text, 0, end);
  text.erase(0, end);
  return closed;
}

}  // namespace sluice::gateway
