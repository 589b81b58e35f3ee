#include "services/gateway/tool_calls/output_splitter.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "services/gateway/tool_calls/brace_calls.h"
#include "services/gateway/tool_calls/named_call.h"
#include "services/gateway/tool_calls/python_calls.h"
#include "services/gateway/tool_calls/section_calls.h"
#include "services/gateway/tool_calls/tags.h"
#include "services/gateway/tool_calls/xml_calls.h"

namespace sluice::gateway {
namespace {

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
  static const auto& xml = *new Tags{{"<tool_call>", "<function="}, "", ""};
  static const auto& glm = *new Tags{{"<tool_call>"}, "", ""};
  static const auto& kimi = *new Tags{{kKimiTags.section_begin, kKimiTags.call_begin}, "", ""};
  static const auto& deepseek =
      *new Tags{{kDeepSeekTags.section_begin, kDeepSeekTags.call_begin}, "", ""};
  static const auto& dsml = *new Tags{{kDsmlSectionBegin, kDsmlTags.name_begin}, "", ""};
  static const auto& granite = *new Tags{{"<|tool_call|>", "<tool_call>"}, "", "[{"};
  static const auto& gemma4 = *new Tags{{kGemma4CallBegin}, "", ""};
  static const auto& cohere = *new Tags{{"<|START_ACTION|>"}, "<|END_ACTION|>", ""};
  static const auto& nemotron = *new Tags{{"<TOOLCALL>"}, "</TOOLCALL>", ""};
  static const auto& olmo = *new Tags{{"<function_calls>"}, "</function_calls>", ""};
  static const auto& lfm = *new Tags{{"<|tool_call_start|>"}, "<|tool_call_end|>", ""};
  switch (format) {
    case ToolFormat::kNone:
    case ToolFormat::kHarmony:
      return none;
    case ToolFormat::kQwenXml:
      return xml;
    case ToolFormat::kGlm:
      return glm;
    case ToolFormat::kDeepSeek:
      return deepseek;
    case ToolFormat::kDsml:
      return dsml;
    case ToolFormat::kKimi:
      return kimi;
    case ToolFormat::kGranite:
      return granite;
    case ToolFormat::kLfm:
      return lfm;
    case ToolFormat::kCohere:
      return cohere;
    case ToolFormat::kNemotron:
      return nemotron;
    case ToolFormat::kOlmo:
      return olmo;
    case ToolFormat::kGemma4:
      return gemma4;
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

absl::string_view WithoutSpace(absl::string_view text) {
  return absl::StripLeadingAsciiWhitespace(text);
}

bool IsPython(ToolFormat format) {
  return format == ToolFormat::kPythonic || format == ToolFormat::kGemma ||
         format == ToolFormat::kLfm || format == ToolFormat::kOlmo;
}

// Calls as JSON in a text that is whole.
std::vector<ToolCall> JsonCalls(std::string text) {
  JsonCallReader reader;
  std::vector<ToolCallPiece> pieces;
  reader.Read(text, /*at_end=*/true, pieces);
  std::vector<ToolCall> calls;
  for (ToolCallPiece& piece : pieces) {
    if (!piece.name.empty()) calls.push_back({std::move(piece.name), ""});
    if (!calls.empty()) calls.back().arguments += piece.arguments;
  }
  return calls;
}

// Null for formats without a reader of their own. `tag` is what began the calls.
std::unique_ptr<CallReader> NewCallReader(ToolFormat format, absl::string_view tag,
                                          const std::vector<OfferedTool>& tools) {
  switch (format) {
    case ToolFormat::kQwenXml:
      return std::make_unique<XmlCallReader>(kQwenXmlTags, tag, tools);
    case ToolFormat::kGlm:
      return std::make_unique<XmlCallReader>(kGlmTags, tag, tools);
    case ToolFormat::kDeepSeek:
      return std::make_unique<SectionCallReader>(kDeepSeekTags, tag);
    case ToolFormat::kDsml:
      return std::make_unique<XmlCallReader>(kDsmlTags, tag, tools);
    case ToolFormat::kKimi:
      return std::make_unique<SectionCallReader>(kKimiTags, tag);
    case ToolFormat::kGemma4:
      return std::make_unique<BraceCallReader>();
    default:
      return nullptr;
  }
}

}  // namespace

OutputSplitter::OutputSplitter(ToolFormat format, bool begins_in_thought)
    : OutputSplitter({.tool_format = format, .begins_in_thought = begins_in_thought}, {}) {}

OutputSplitter::OutputSplitter(const OutputStyle& style, std::vector<OfferedTool> tools)
    : format_(style.tool_format),
      reasoning_(TagsOf(style.reasoning)),
      tools_(std::make_unique<const std::vector<OfferedTool>>(std::move(tools))),
      state_(style.begins_in_thought ? State::kThought : State::kBeginning),
      json_calls_(format_ == ToolFormat::kMistral),
      drops_space_(style.begins_in_thought) {
  if (style.reasoning == ReasoningFormat::kChannels || format_ == ToolFormat::kHarmony) {
    harmony_ = std::make_unique<HarmonySplitter>();
  }
}

OutputSplitter OutputSplitter::OfArguments(std::string tool) {
  OutputSplitter splitter(ToolFormat::kNone, /*begins_in_thought=*/false);
  splitter.state_ = State::kArguments;
  splitter.tool_ = std::move(tool);
  return splitter;
}

OutputPiece OutputSplitter::Add(absl::string_view text, int num_tokens) {
  OutputPiece piece;
  if (harmony_ != nullptr) {
    const bool was_reasoning = harmony_->is_reasoning();
    harmony_->Add(text, /*at_end=*/false, piece);
    if (was_reasoning || harmony_->is_reasoning() || !piece.reasoning.empty()) {
      num_thought_tokens_ += num_tokens;
    }
    return piece;
  }
  const bool began_in_thought = state_ == State::kThought;
  absl::StrAppend(&pending_, text);
  while (Advance(piece, /*at_end=*/false)) {
  }
  if (began_in_thought || state_ == State::kThought || !piece.reasoning.empty()) {
    num_thought_tokens_ += num_tokens;
  }
  return piece;
}

OutputPiece OutputSplitter::Finish() {
  OutputPiece piece;
  if (harmony_ != nullptr) harmony_->Add("", /*at_end=*/true, piece);
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
    case State::kBehindThought:
      return AdvanceBehindThought(at_end);
    case State::kText:
      return AdvanceText(piece, at_end);
    case State::kCall:
      if (tagged_calls_ != nullptr) return AdvanceTaggedCall(piece, at_end);
      return IsPython(format_) ? AdvancePythonCall(piece, at_end) : AdvanceJsonCall(piece, at_end);
    case State::kArguments:
      return AdvanceArguments(piece);
  }
  return false;
}

bool OutputSplitter::AdvanceBeginning(bool at_end) {
  const absl::string_view text = WithoutSpace(pending_);
  if (absl::StartsWith(text, reasoning_.begin)) {
    pending_ = std::string(absl::StripPrefix(text, reasoning_.begin));
    BeginThought();
    return true;
  }
  if (!at_end && IsProperPrefix(text, reasoning_.begin)) return false;
  state_ = State::kBehindThought;  // there may be the tag of texts
  return true;
}

void OutputSplitter::BeginThought() {
  state_ = State::kThought;
  drops_line_break_ = reasoning_.is_channel;
}

bool OutputSplitter::AdvanceThought(OutputPiece& piece, bool at_end) {
  if (drops_line_break_ && !pending_.empty()) {
    if (pending_[0] == '\n') pending_.erase(0, 1);
    drops_line_break_ = false;
  }
  const size_t end = pending_.find(reasoning_.end);
  if (end != std::string::npos) {
    absl::StrAppend(&piece.reasoning, absl::string_view(pending_).substr(0, end));
    pending_.erase(0, end + absl::string_view(reasoning_.end).size());
    state_ = State::kBehindThought;
    drops_space_ = true;
    return true;
  }
  const size_t certain = pending_.size() - (at_end ? 0 : HeldBack(pending_, {reasoning_.end}));
  absl::StrAppend(&piece.reasoning, absl::string_view(pending_).substr(0, certain));
  pending_.erase(0, certain);
  return false;
}

bool OutputSplitter::AdvanceBehindThought(bool at_end) {
  const absl::string_view begin = reasoning_.text_begin;
  const absl::string_view text = WithoutSpace(pending_);
  if (!begin.empty() && absl::StartsWith(text, begin)) {
    pending_ = std::string(absl::StripPrefix(text, begin));
    has_text_tag_ = true;
  } else if (!at_end && IsProperPrefix(text, begin)) {
    return false;
  }
  state_ = State::kText;
  return true;
}

bool OutputSplitter::AdvanceText(OutputPiece& piece, bool at_end) {
  const Tags& tags = TagsOf(format_);
  if (!has_text_ && drops_space_) pending_ = std::string(WithoutSpace(pending_));
  const absl::string_view front = WithoutSpace(pending_);
  if (!has_text_ && !tags.whole.empty()) {
    if (absl::StartsWith(front, tags.whole)) {
      BeginCalls("");
      return true;
    }
    if (!at_end && IsProperPrefix(front, tags.whole)) return false;
  }
  if (!has_text_ && format_ == ToolFormat::kMistral) {
    const NamedCallHead::Verdict verdict = NamedCallAt(pending_).verdict;
    if (verdict == NamedCallHead::Verdict::kCall) {
      BeginCalls("");
      return true;
    }
    if (verdict == NamedCallHead::Verdict::kMaybe && !at_end) return false;
  }
  std::vector<absl::string_view> begins(tags.begins.begin(), tags.begins.end());
  if (has_text_tag_) begins.push_back(reasoning_.text_end);
  if (reasoning_.is_channel) begins.insert(begins.end(), {reasoning_.begin, reasoning_.end});
  const auto [begin, tag] = FindFirst(pending_, begins);
  const bool found = begin != std::string::npos;
  const size_t certain =
      found ? begin : pending_.size() - (at_end ? 0 : HeldBack(pending_, begins));
  const absl::string_view text = absl::string_view(pending_).substr(0, certain);
  const bool is_space = WithoutSpace(text).empty();
  // White space that only stands before a call is part of it.
  if (!found && is_space && !has_text_ && !at_end && format_ != ToolFormat::kNone) return false;
  if (!found || has_text_ || !is_space) {
    absl::StrAppend(&piece.text, text);
    has_text_ = has_text_ || !is_space;
  }
  pending_.erase(0, certain + tag.size());
  if (found && has_text_tag_ && tag == reasoning_.text_end) {
    has_text_tag_ = false;
  } else if (found && reasoning_.is_channel && tag == reasoning_.begin) {
    BeginThought();
  } else if (found && reasoning_.is_channel && tag == reasoning_.end) {
    drops_space_ = true;
  } else if (found) {
    BeginCalls(std::string(tag));
  }
  return found;
}

void OutputSplitter::BeginCalls(std::string tag) {
  tag_ = std::move(tag);
  tagged_calls_ = NewCallReader(format_, tag_, *tools_);
  state_ = State::kCall;
}

bool OutputSplitter::AdvanceTaggedCall(OutputPiece& piece, bool at_end) {
  if (!tagged_calls_->Read(pending_, at_end, piece.calls)) return false;
  const bool has_calls = tagged_calls_->has_calls();
  if (!has_calls) absl::StrAppend(&piece.text, tag_, tagged_calls_->unclaimed());
  EndCalls(has_calls);
  return true;
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
  std::vector<ToolCall> calls = ParsePythonCalls(absl::string_view(pending_).substr(0, end));
  if (calls.empty() && format_ == ToolFormat::kLfm) calls = JsonCalls(pending_.substr(0, end));
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
  tagged_calls_.reset();
  has_text_ = !has_calls;
  drops_space_ = drops_space_ || has_calls;
}

bool OutputSplitter::AdvanceArguments(OutputPiece& piece) {
  if (pending_.empty()) return false;
  piece.calls.push_back({std::exchange(tool_, ""), std::exchange(pending_, "")});
  return false;
}

}  // namespace sluice::gateway
