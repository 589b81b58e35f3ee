#include "services/gateway/tool_calls/harmony_splitter.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "services/gateway/tool_calls/tags.h"

namespace sluice::gateway {
namespace {

constexpr char kStart[] = "<|start|>";
constexpr char kChannel[] = "<|channel|>";
constexpr char kMessage[] = "<|message|>";
constexpr char kConstrain[] = "<|constrain|>";
constexpr char kEnd[] = "<|end|>";
constexpr char kCall[] = "<|call|>";
constexpr char kReturn[] = "<|return|>";
constexpr char kRecipient[] = "to=";

// Longer ones are no headers.
constexpr size_t kMaxHeaderBytes = 1024;

// The word that follows `tag` in a header; empty where the tag is not there.
absl::string_view WordBehind(absl::string_view header, absl::string_view tag) {
  const size_t found = header.find(tag);
  if (found == absl::string_view::npos) return "";
  header = absl::StripLeadingAsciiWhitespace(header.substr(found + tag.size()));
  return header.substr(0, header.find_first_of(" \t\r\n<"));
}

}  // namespace

std::vector<std::string> HarmonyTags() {
  return {kStart, kChannel, kMessage, kConstrain, kEnd, kCall, kReturn};
}

void HarmonySplitter::Add(absl::string_view text, bool at_end, OutputPiece& piece) {
  absl::StrAppend(&pending_, text);
  bool goes_on = true;
  while (goes_on) {
    switch (state_) {
      case State::kBetween:
        goes_on = ReadBetween(at_end);
        break;
      case State::kHeader:
        goes_on = ReadHeader(at_end, piece);
        break;
      case State::kBody:
        goes_on = ReadBody(at_end, piece);
        break;
    }
  }
}

bool HarmonySplitter::ReadBetween(bool at_end) {
  const absl::string_view front = absl::StripLeadingAsciiWhitespace(pending_);
  for (const absl::string_view tag : {kStart, kChannel, kMessage, kConstrain, kRecipient}) {
    if (absl::StartsWith(front, tag)) {
      state_ = State::kHeader;
      return true;
    }
    if (!at_end && IsProperPrefix(front, tag)) return false;
  }
  if (front.empty()) return false;
  kind_ = Kind::kText;
  begins_message_ = true;
  state_ = State::kBody;
  return true;
}

bool HarmonySplitter::ReadHeader(bool at_end, OutputPiece& piece) {
  const size_t end = pending_.substr(0, kMaxHeaderBytes).find(kMessage);
  if (end != std::string::npos) {
    BeginMessage(absl::string_view(pending_).substr(0, end), piece);
    pending_.erase(0, end + sizeof(kMessage) - 1);
  } else if (pending_.size() >= kMaxHeaderBytes) {
    kind_ = Kind::kText;
    Append(pending_.substr(0, kMaxHeaderBytes), piece);
    pending_.erase(0, kMaxHeaderBytes);
  } else {
    if (at_end) pending_.clear();  // a header without a body says nothing
    return false;
  }
  state_ = State::kBody;
  return true;
}

void HarmonySplitter::BeginMessage(absl::string_view header, OutputPiece& piece) {
  begins_message_ = true;
  const absl::string_view channel = WordBehind(header, kChannel);
  absl::string_view recipient = WordBehind(header, kRecipient);
  if (absl::ConsumePrefix(&recipient, "functions.") && !recipient.empty()) {
    kind_ = Kind::kCall;
    piece.calls.push_back({std::string(recipient), ""});
  } else if (!recipient.empty() || channel == "analysis") {
    kind_ = Kind::kReasoning;
  } else {
    kind_ = Kind::kText;
  }
}

void HarmonySplitter::Append(absl::string_view body, OutputPiece& piece) {
  if (body.empty()) return;
  const bool begins = std::exchange(begins_message_, false);
  if (kind_ == Kind::kCall) {
    if (piece.calls.empty()) piece.calls.emplace_back();
    absl::StrAppend(&piece.calls.back().arguments, body);
  } else if (kind_ == Kind::kReasoning) {
    absl::StrAppend(&piece.reasoning, begins && has_reasoning_ ? "\n" : "", body);
    has_reasoning_ = true;
  } else {
    absl::StrAppend(&piece.text, begins && has_text_ ? "\n" : "", body);
    has_text_ = true;
  }
}

bool HarmonySplitter::ReadBody(bool at_end, OutputPiece& piece) {
  const auto [end, tag] = FindFirst(pending_, {kEnd, kCall, kReturn, kStart, kChannel});
  const bool is_whole = end != std::string::npos;
  const size_t size =
      is_whole ? end
               : pending_.size() -
                     (at_end ? 0 : HeldBack(pending_, {kEnd, kCall, kReturn, kStart, kChannel}));
  Append(absl::string_view(pending_).substr(0, size), piece);
  if ((is_whole || at_end) && kind_ == Kind::kCall && begins_message_) Append("{}", piece);
  pending_.erase(0, size);
  if (!is_whole) return false;
  if (tag != kStart && tag != kChannel) pending_.erase(0, tag.size());
  state_ = State::kBetween;
  return true;
}

}  // namespace sluice::gateway
