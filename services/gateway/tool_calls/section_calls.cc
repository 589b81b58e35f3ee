#include "services/gateway/tool_calls/section_calls.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "services/gateway/tool_calls/tags.h"

namespace sluice::gateway {
namespace {

// The longest that is looked for between a call's tag and its arguments.
constexpr size_t kMaxHeadBytes = 512;
constexpr char kFence[] = "```";
// What DeepSeek V3 writes in place of the name.
constexpr char kFunctionKind[] = "function";

// "functions.NAME:0" is how Kimi numbers calls.
std::string NameOf(absl::string_view head) {
  head = absl::StripAsciiWhitespace(head);
  absl::ConsumePrefix(&head, "functions.");
  size_t end = head.size();
  while (end > 0 && absl::ascii_isdigit(static_cast<unsigned char>(head[end - 1]))) --end;
  if (end > 1 && end < head.size() && head[end - 1] == ':') head = head.substr(0, end - 1);
  return std::string(head);
}

bool IsName(absl::string_view name) {
  return !name.empty() && name.find_first_of(" \t\r\n<{\"") == absl::string_view::npos;
}

// Without what closes a block of code, and white space around it.
absl::string_view WithoutFence(absl::string_view arguments, bool is_fenced) {
  arguments = absl::StripTrailingAsciiWhitespace(arguments);
  if (is_fenced && absl::ConsumeSuffix(&arguments, kFence)) {
    arguments = absl::StripTrailingAsciiWhitespace(arguments);
  }
  return arguments;
}

}  // namespace

const SectionTags kKimiTags = {"<|tool_calls_section_begin|>", "<|tool_call_begin|>",
                               "<|tool_call_argument_begin|>", "<|tool_call_end|>",
                               "<|tool_calls_section_end|>"};
const SectionTags kDeepSeekTags = {"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>",
                                   "<｜tool▁sep｜>", "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>"};

SectionCallReader::SectionCallReader(const SectionTags& tags, absl::string_view begun_by)
    : tags_(tags), state_(begun_by == tags.call_begin ? State::kHead : State::kBetween) {}

bool SectionCallReader::Read(std::string& text, bool at_end, std::vector<ToolCallPiece>& pieces) {
  bool goes_on = true;
  while (goes_on && state_ != State::kEnded) {
    switch (state_) {
      case State::kBetween:
        goes_on = ReadBetween(text, at_end);
        break;
      case State::kHead:
        goes_on = ReadHead(text, at_end, pieces);
        break;
      case State::kFencedHead:
        goes_on = ReadFencedHead(text, at_end, pieces);
        break;
      case State::kArguments:
        goes_on = ReadArguments(text, at_end, pieces);
        break;
      case State::kEnded:
        break;
    }
  }
  return state_ == State::kEnded;
}

bool SectionCallReader::ReadBetween(std::string& text, bool at_end) {
  Skip(text, LeadingSpace(text));
  if (absl::StartsWith(text, tags_.call_begin)) {
    Skip(text, absl::string_view(tags_.call_begin).size());
    state_ = State::kHead;
  } else if (absl::StartsWith(text, tags_.section_end)) {
    Skip(text, absl::string_view(tags_.section_end).size());
    state_ = State::kEnded;
  } else if (!at_end &&
             (IsProperPrefix(text, tags_.call_begin) || IsProperPrefix(text, tags_.section_end))) {
    return false;
  } else {
    state_ = State::kEnded;
  }
  return true;
}

bool SectionCallReader::ReadHead(std::string& text, bool at_end,
                                 std::vector<ToolCallPiece>& pieces) {
  const size_t found = text.substr(0, kMaxHeadBytes).find(tags_.separator);
  if (found == std::string::npos) {
    if (!at_end && text.size() < kMaxHeadBytes) return false;
    state_ = State::kEnded;
    return true;
  }
  const std::string name = NameOf(absl::string_view(text).substr(0, found));
  const size_t size = found + absl::string_view(tags_.separator).size();
  if (name == kFunctionKind) {
    Skip(text, size);
    state_ = State::kFencedHead;
  } else {
    EndHead(name, text, size, pieces);
  }
  return true;
}

// The name, a line break, and what opens a block of code; nothing of this where the name was
// "function" itself.
bool SectionCallReader::ReadFencedHead(std::string& text, bool at_end,
                                       std::vector<ToolCallPiece>& pieces) {
  const absl::string_view head = absl::string_view(text).substr(0, kMaxHeadBytes);
  const size_t end = std::min(head.find('{'), head.find(tags_.call_end));
  if (end == absl::string_view::npos) {
    if (!at_end && text.size() < kMaxHeadBytes) return false;
    state_ = State::kEnded;
    return true;
  }
  absl::string_view before = head.substr(0, end);
  const absl::string_view name = absl::StripAsciiWhitespace(before.substr(0, before.find('\n')));
  is_fenced_ = absl::StrContains(before, kFence);
  EndHead(name.empty() ? kFunctionKind : std::string(name), text, end, pieces);
  return true;
}

void SectionCallReader::EndHead(std::string name, std::string& text, size_t size,
                                std::vector<ToolCallPiece>& pieces) {
  if (!IsName(name)) {
    state_ = State::kEnded;
    return;
  }
  Skip(text, size);
  Begin(std::move(name), pieces);
  has_arguments_ = false;
  state_ = State::kArguments;
}

bool SectionCallReader::ReadArguments(std::string& text, bool at_end,
                                      std::vector<ToolCallPiece>& pieces) {
  if (!has_arguments_) text.erase(0, LeadingSpace(text));
  const auto [found, tag] = FindFirst(text, {tags_.call_end, tags_.section_end});
  const bool is_whole = found != std::string::npos || at_end;
  const absl::string_view before = absl::string_view(text).substr(0, found);
  size_t certain = WithoutFence(before, is_fenced_).size();
  if (!is_whole) {
    // White space and what closes a block of code may stand before the tag.
    certain = before.size() - HeldBack(text, {tags_.call_end, tags_.section_end});
    while (certain > 0 && (absl::ascii_isspace(static_cast<unsigned char>(text[certain - 1])) ||
                           (is_fenced_ && text[certain - 1] == '`'))) {
      --certain;
    }
  }
  has_arguments_ = has_arguments_ || certain > 0;
  AppendArguments(absl::string_view(text).substr(0, certain), pieces);
  if (!is_whole) {
    text.erase(0, certain);
    return false;
  }
  if (!has_arguments_) AppendArguments("{}", pieces);
  is_fenced_ = false;
  text.erase(0, found == std::string::npos ? text.size() : found);
  if (tag == tags_.call_end) text.erase(0, tag.size());
  state_ = found == std::string::npos ? State::kEnded : State::kBetween;
  return true;
}

}  // namespace sluice::gateway
