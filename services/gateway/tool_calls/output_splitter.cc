#include "services/gateway/tool_calls/output_splitter.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "services/gateway/json/json_text.h"
#include "services/gateway/tool_calls/python_calls.h"

namespace sluice::gateway {
namespace {

using nlohmann::json;

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

// One object, {"name": .., "arguments" or "parameters": {..} or its text}.
bool AddCall(const json& object, std::vector<ToolCall>& calls) {
  if (!object.is_object() || !object.contains("name") || !object["name"].is_string()) return false;
  const char* const key = object.contains("arguments") ? "arguments" : "parameters";
  json arguments = object.value(key, json::object());
  if (arguments.is_string()) {
    const absl::StatusOr<json> parsed = ParseJson(arguments.get_ref<const std::string&>());
    if (parsed.ok()) arguments = *parsed;
  }
  if (arguments.is_null()) arguments = json::object();
  if (!arguments.is_object() || object["name"].get_ref<const std::string&>().empty()) return false;
  calls.push_back({object["name"].get<std::string>(), ToJson(arguments)});
  return true;
}

// Values one after the other, separated by ';' or white space, or an array of them.
std::vector<ToolCall> ParseJsonCalls(absl::string_view text) {
  std::vector<ToolCall> calls;
  for (text = WithoutSpace(text); !text.empty(); text = WithoutSpace(text)) {
    // The value ends where its brackets are closed.
    int depth = 0;
    bool in_string = false;
    size_t end = 0;
    for (; end < text.size(); ++end) {
      const char c = text[end];
      if (in_string) {
        if (c == '\\') ++end;
        if (c == '"') in_string = false;
      } else if (c == '"') {
        in_string = true;
      } else if (c == '{' || c == '[') {
        ++depth;
      } else if ((c == '}' || c == ']') && --depth <= 0) {
        break;
      }
    }
    if (end >= text.size()) return {};
    const absl::StatusOr<json> value = ParseJson(text.substr(0, end + 1));
    if (!value.ok()) return {};
    const json list = value->is_array() ? *value : json::array({*value});
    for (const json& object : list) {
      if (!AddCall(object, calls)) return {};
    }
    text.remove_prefix(end + 1);
    text = WithoutSpace(text);
    if (!text.empty() && (text[0] == ';' || text[0] == ',')) text.remove_prefix(1);
  }
  return calls;
}

}  // namespace

std::vector<ToolCall> ParseCalls(ToolFormat format, absl::string_view text) {
  if (format == ToolFormat::kNone) return {};
  const bool is_python = format == ToolFormat::kPythonic || format == ToolFormat::kGemma;
  return is_python ? ParsePythonCalls(text) : ParseJsonCalls(text);
}

OutputSplitter::OutputSplitter(ToolFormat format, bool begins_in_thought)
    : format_(format),
      state_(begins_in_thought ? State::kThought : State::kBeginning),
      drops_space_(begins_in_thought) {}

OutputPiece OutputSplitter::Add(absl::string_view text) {
  absl::StrAppend(&pending_, text);
  OutputPiece piece;
  while (Advance(piece, /*at_end=*/false)) {
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
      return AdvanceCall(piece, at_end);
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

bool OutputSplitter::AdvanceCall(OutputPiece& piece, bool at_end) {
  const Tags& tags = TagsOf(format_);
  size_t end = tags.end.empty() ? std::string::npos : pending_.find(tags.end);
  size_t after = end + tags.end.size();
  if (end == std::string::npos) {
    if (!at_end) return false;
    end = after = pending_.size();
  }
  std::vector<ToolCall> calls = ParseCalls(format_, absl::string_view(pending_).substr(0, end));
  state_ = State::kText;
  if (calls.empty()) {
    absl::StrAppend(&piece.text, tag_, absl::string_view(pending_).substr(0, after));
    has_text_ = true;
  } else {
    std::move(calls.begin(), calls.end(), std::back_inserter(piece.calls));
    has_text_ = false;
    drops_space_ = true;
  }
  pending_.erase(0, after);
  return true;
}

}  // namespace sluice::gateway
