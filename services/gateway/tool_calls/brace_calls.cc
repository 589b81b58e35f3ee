#include "services/gateway/tool_calls/brace_calls.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "services/gateway/json/json_text.h"
#include "services/gateway/tool_calls/argument_types.h"
#include "services/gateway/tool_calls/tags.h"

namespace sluice::gateway {
namespace {

using nlohmann::json;

constexpr absl::string_view kPrefix = "call:";
// The longest that is looked for between the tag and the arguments.
constexpr size_t kMaxCallHeadBytes = 512;
constexpr size_t kMaxDepth = 256;

std::string Quoted(absl::string_view text) {
  return json(text).dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace

bool BraceCallReader::Read(std::string& text, bool at_end, std::vector<ToolCallPiece>& pieces) {
  bool goes_on = true;
  while (goes_on && state_ != State::kEnded) {
    switch (state_) {
      case State::kHead:
        goes_on = ReadHead(text, at_end, pieces);
        break;
      case State::kArguments:
        goes_on = ReadArguments(text, at_end, pieces);
        break;
      case State::kString:
        goes_on = ReadString(text, at_end, pieces);
        break;
      case State::kEnd:
        goes_on = ReadEnd(text, at_end);
        break;
      case State::kEnded:
        break;
    }
  }
  return at_end || state_ == State::kEnded;
}

bool BraceCallReader::ReadHead(std::string& text, bool at_end, std::vector<ToolCallPiece>& pieces) {
  const absl::string_view head = absl::string_view(text).substr(0, kMaxCallHeadBytes);
  const size_t brace = head.find('{');
  if (!at_end && brace == absl::string_view::npos && text.size() < kMaxCallHeadBytes) return false;
  const absl::string_view before =
      absl::StripAsciiWhitespace(head.substr(0, std::min(brace, head.size())));
  const absl::string_view name =
      absl::StartsWith(before, kPrefix) ? before.substr(kPrefix.size()) : "";
  if (brace == absl::string_view::npos || name.empty() ||
      name.find_first_of(" \t\r\n<>\"") != absl::string_view::npos) {
    state_ = State::kEnded;
    return true;
  }
  const std::string tool(name);
  Skip(text, brace);
  Begin(tool, pieces);
  state_ = State::kArguments;
  return true;
}

bool BraceCallReader::ReadArguments(std::string& text, bool at_end,
                                    std::vector<ToolCallPiece>& pieces) {
  const size_t next = text.find_first_of("{}[],:<");
  if (next == std::string::npos) {
    if (at_end) {
      TakeBare(text, /*is_key=*/false, pieces);
      text.clear();
    }
    return false;
  }
  const absl::string_view rest = absl::string_view(text).substr(next);
  if (text[next] == '<' && !absl::StartsWith(rest, kGemma4Quote) &&
      !absl::StartsWith(rest, kGemma4CallEnd)) {
    if (!at_end && (IsProperPrefix(rest, kGemma4Quote) || IsProperPrefix(rest, kGemma4CallEnd))) {
      return false;
    }
    // It begins nothing that is known here: the call is not what it looked like.
    TakeBare(absl::string_view(text).substr(0, next), /*is_key=*/false, pieces);
    text.erase(0, next);
    state_ = State::kEnded;
    return true;
  }
  TakeBare(absl::string_view(text).substr(0, next), text[next] == ':', pieces);
  if (absl::StartsWith(rest, kGemma4Quote)) {
    AppendArguments("\"", pieces);
    text.erase(0, next + absl::string_view(kGemma4Quote).size());
    state_ = State::kString;
  } else if (text[next] == '<') {
    text.erase(0, next);
    state_ = State::kEnd;
  } else {
    TakeMark(text[next], pieces);
    text.erase(0, next + 1);
    if (open_.empty() || open_.size() > kMaxDepth) state_ = State::kEnd;
  }
  return true;
}

bool BraceCallReader::ReadString(std::string& text, bool at_end,
                                 std::vector<ToolCallPiece>& pieces) {
  const size_t end = text.find(kGemma4Quote);
  const bool is_whole = end != std::string::npos;
  size_t certain = is_whole ? end : text.size();
  if (!is_whole && !at_end) certain -= HeldBack(text, {kGemma4Quote});
  AppendArguments(EscapedForJson(absl::string_view(text).substr(0, certain)), pieces);
  text.erase(0, certain);
  if (!is_whole) return false;
  AppendArguments("\"", pieces);
  text.erase(0, absl::string_view(kGemma4Quote).size());
  state_ = State::kArguments;
  return true;
}

bool BraceCallReader::ReadEnd(std::string& text, bool at_end) {
  const absl::string_view rest = absl::StripLeadingAsciiWhitespace(text);
  if (!at_end && IsProperPrefix(rest, kGemma4CallEnd)) return false;
  if (absl::StartsWith(rest, kGemma4CallEnd)) {
    text.erase(0, text.size() - rest.size() + absl::string_view(kGemma4CallEnd).size());
  }
  state_ = State::kEnded;
  return true;
}

void BraceCallReader::TakeBare(absl::string_view bare, bool is_key,
                               std::vector<ToolCallPiece>& pieces) {
  bare = absl::StripAsciiWhitespace(bare);
  if (bare.empty()) return;
  const absl::StatusOr<json> parsed = ParseJson(bare);
  const bool is_json = parsed.ok() && (parsed->is_string() || !is_key);
  AppendArguments(is_json ? std::string(bare) : Quoted(bare), pieces);
}

void BraceCallReader::TakeMark(char mark, std::vector<ToolCallPiece>& pieces) {
  switch (mark) {
    case '{':
      open_.push_back('}');
      break;
    case '[':
      open_.push_back(']');
      break;
    case '}':
    case ']':
      if (open_.empty()) return;
      mark = open_.back();  // a bracket of the other kind closes what is open
      open_.pop_back();
      break;
    case ',':
      AppendArguments(", ", pieces);
      return;
    case ':':
      AppendArguments(": ", pieces);
      return;
    default:
      break;
  }
  AppendArguments(absl::string_view(&mark, 1), pieces);
}

}  // namespace sluice::gateway
