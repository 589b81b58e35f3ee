#include "services/gateway/tool_calls/output_splitter.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "services/gateway/tool_calls/named_call.h"
#include "services/gateway/tool_calls/python_calls.h"

namespace sluice::gateway {
namespace {

constexpr char kThink[] = "<think>";
constexpr char kEndThink[] = "</think>";

// What stands around calls. Without an end, calls go on to the end of the text.
struct Tags {
  std::vector<std::string> begins;
  std::string end;
  // What a text that is a call as a whole begins with, which is no tag but part of the call.
  std::string whole;
};

const Tags& TagsOf(ToolFormat format) {
  static const auto& none = *new Tags();
  static const auto& hermes = *new Tags{{"<tool_call>"}, "</tool_call>", ""};
  static const auto& llama = *new Tags{{"<|python_tag|>"}, "", "{"};
  static const auto& pythonic = *new Tags{{}, "", "["};
  // Decoders leave special tokens out, as which Mistral's tag is often defined.
  static const auto& mistral = *new Tags{{"[TOOL_CALLS]"}, "", "[{"};
  static const auto& phi = *new Tags{{"functools", "<|tool_call|>"}, "<|/tool_call|>", "[{"};
  static const auto& gemma = *new Tags{{"```tool_code"}, "```", ""};
  switch (format) {
    case ToolFormat::kNone:
      return none;
    case ToolFormat::kHermes:
      return hermes;
    case ToolFormat::kLlamaJson:
      return llama;
    case ToolFormat::kPythonic:
      return pythonic;
    case ToolFormat::kMistral:
      return mistral;
    case ToolFormat::kPhi:
      return phi;
    case ToolFormat::kGemma:
      return gemma;
  }
  return none;
}

bool IsProperPrefix(absl::string_view text, absl::string_view of) {
  return text.size() < of.size() && absl::StartsWith(of, text);
}

// How much of the text's end may be the beginning of a tag.
size_t HeldBack(absl::string_view text, const std::vector<std::string>& tags) {
  size_t held = 0;
  for (const std::string& tag : tags) {
    for (size_t n = std::min(text.size(), tag.size() - 1); n > held; --n) {
      if (absl::StartsWith(tag, text.substr(text.size() - n))) held = n;
    }
  }
  return held;
}

absl::string_view WithoutSpace(absl::string_view text) {
  return absl::StripLeadingAsciiWhitespace(text);
}

bool IsPython(ToolFormat format) {
  return format == ToolFormat::kPythonic || format == ToolFormat::kGemma;
}

}  // namespace

OutputSplitter::OutputSplitter(ToolFormat format, bool begins_in_thought)
    : format_(format),
      state_(begins_in_thought ? State::kThought : State::kBeginning),
      json_calls_(format == ToolFormat::kMistral),
      drops_space_(begins_in_thought) {}

OutputSplitter OutputSplitter::OfArguments(std::string tool) {
  OutputSplitter splitter(ToolFormat::kNone, /*begins_in_thought=*/false);
  splitter.state_ = State::kArguments;
  splitter.tool_ = std::move(tool);
  return splitter;
}

OutputPiece OutputSplitter::Add(absl::string_view text, int num_tokens) {
  const bool began_in_thought = state_ == State::kThought;
  absl::StrAppend(&pending_, text);
  OutputPiece piece;
  while (Advance(piece, /*at_end=*/false)) {
  }
  if (began_in_thought || state_ == State::kThought || !piece.reasoning.empty()) {
    num_thought_tokens_ += num_tokens;
  }
  return piece;
}

OutputPiece OutputSplitter::Finish() {
  OutputPiece piece;
  while (Advance(piece, /*at_end=*/true)) {
  }
  return piece;
}

bool OutputSplitter::Advance(OutputPiece& piece, bool at_end) {
  switch (state_) {
    case State::kBeginning:
      return AdvanceBeginning(at_end);
    case State::kThought:
      return AdvanceThought(piece, at_end);
    case State::kText:
      return AdvanceText(piece, at_end);
    case State::kCall:
      return IsPython(format_) ? AdvancePythonCall(piece, at_end) : AdvanceJsonCall(piece, at_end);
    case State::kArguments:
      return AdvanceArguments(piece);
  }
  return false;
}

bool OutputSplitter::AdvanceBeginning(bool at_end) {
  const absl::string_view text = WithoutSpace(pending_);
  if (absl::StartsWith(text, kThink)) {
    pending_ = std::string(absl::StripPrefix(text, kThink));
    state_ = State::kThought;
    return true;
  }
  if (!at_end && IsProperPrefix(text, kThink)) return false;
  state_ = State::kText;
  return true;
}

bool OutputSplitter::AdvanceThought(OutputPiece& piece, bool at_end) {
  const size_t end = pending_.find(kEndThink);
  if (end != std::string::npos) {
    absl::StrAppend(&piece.reasoning, absl::string_view(pending_).substr(0, end));
    pending_.erase(0, end + sizeof(kEndThink) - 1);
    state_ = State::kText;
    drops_space_ = true;
    return true;
  }
  const size_t certain = pending_.size() - (at_end ? 0 : HeldBack(pending_, {kEndThink}));
  absl::StrAppend(&piece.reasoning, absl::string_view(pending_).substr(0, certain));
  pending_.erase(0, certain);
  return false;
}

bool OutputSplitter::AdvanceText(OutputPiece& piece, bool at_end) {
  const Tags& tags = TagsOf(format_);
  if (!has_text_ && drops_space_) pending_ = std::string(WithoutSpace(pending_));
  const absl::string_view front = WithoutSpace(pending_);
  if (!has_text_ && !tags.whole.empty()) {
    if (absl::StartsWith(front, tags.whole)) {
      tag_.clear();
      state_ = State::kCall;
      return true;
    }
    if (!at_end && IsProperPrefix(front, tags.whole)) return false;
  }
  if (!has_text_ && format_ == ToolFormat::kMistral) {
    const NamedCallHead::Verdict verdict = NamedCallAt(pending_).verdict;
    if (verdict == NamedCallHead::Verdict::kCall) {
      tag_.clear();
      state_ = State::kCall;
      return true;
    }
    if (verdict == NamedCallHead::Verdict::kMaybe && !at_end) return false;
  }
  size_t begin = std::string::npos;
  for (const std::string& tag : tags.begins) {
    const size_t found = pending_.find(tag);
    if (found >= begin) continue;
    begin = found;
    tag_ = tag;
  }
  const bool found = begin != std::string::npos;
  const size_t certain =
      found ? begin : pending_.size() - (at_end ? 0 : HeldBack(pending_, tags.begins));
  const absl::string_view text = absl::string_view(pending_).substr(0, certain);
  const bool is_space = WithoutSpace(text).empty();
  // White space that only stands before a call is part of it.
  if (!found && is_space && !has_text_ && !at_end && format_ != ToolFormat::kNone) return false;
  if (!found || has_text_ || !is_space) {
    absl::StrAppend(&piece.text, text);
    has_text_ = has_text_ || !is_space;
  }
  pending_.erase(0, certain + (found ? tag_.size() : 0));
  if (found) state_ = State::kCall;
  return found;
}

// What has come so far of a call is handed on at once.
bool OutputSplitter::AdvanceJsonCall(OutputPiece& piece, bool at_end) {
  const std::string& end = TagsOf(format_).end;
  const auto result = json_calls_.Read(pending_, at_end, piece.calls);
  if (result == JsonCallReader::Result::kNeedsMore) return false;
  if (!at_end && !pending_.empty() && IsProperPrefix(pending_, end)) return false;
  const bool has_end = !end.empty() && absl::StartsWith(pending_, end);
  if (has_end) pending_.erase(0, end.size());
  if (!json_calls_.has_calls()) {
    absl::StrAppend(&piece.text, tag_, json_calls_.unclaimed(), has_end ? end : "");
  }
  EndCalls(json_calls_.has_calls());
  return true;
}

bool OutputSplitter::AdvancePythonCall(OutputPiece& piece, bool at_end) {
  const Tags& tags = TagsOf(format_);
  size_t end = tags.end.empty() ? std::string::npos : pending_.find(tags.end);
  size_t after = end + tags.end.size();
  if (end == std::string::npos) {
    if (!at_end) return false;
    end = after = pending_.size();
  }
  const std::vector<ToolCall> calls = ParsePythonCalls(absl::string_view(pending_).substr(0, end));
  if (calls.empty()) {
    absl::StrAppend(&piece.text, tag_, absl::string_view(pending_).substr(0, after));
  }
  for (const ToolCall& call : calls) piece.calls.push_back({call.name, call.arguments});
  pending_.erase(0, after);
  EndCalls(!calls.empty());
  return true;
}

void OutputSplitter::EndCalls(bool has_calls) {
  state_ = State::kText;
  json_calls_ = JsonCallReader(format_ == ToolFormat::kMistral);
  has_text_ = !has_calls;
  drops_space_ = drops_space_ || has_calls;
}

bool OutputSplitter::AdvanceArguments(OutputPiece& piece) {
  if (pending_.empty()) return false;
  piece.calls.push_back({std::exchange(tool_, ""), std::exchange(pending_, "")});
  return false;
}

}  // namespace sluice::gateway
