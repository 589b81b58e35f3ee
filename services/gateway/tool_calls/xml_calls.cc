#include "services/gateway/tool_calls/xml_calls.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "services/gateway/json/json_text.h"
#include "services/gateway/tool_calls/tags.h"

namespace sluice::gateway {
namespace {

// The longest name of a tool or an argument.
constexpr size_t kMaxNameBytes = 256;

// No letter of a name.
constexpr char kNoName[] = " \t\r\n<>{}\"";

size_t SizeOf(const char* tag) { return absl::string_view(tag).size(); }

std::string SchemaOf(const std::vector<OfferedTool>& tools, const std::string& name) {
  for (const OfferedTool& tool : tools) {
    if (tool.name == name) return tool.parameters;
  }
  return "";
}

}  // namespace

const XmlTags kQwenXmlTags = {"<function=",   ">",           "<parameter=",  ">", "",
                              "</parameter>", "</function>", "</tool_call>", true};
const XmlTags kGlmTags = {
    "", "", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", "</tool_call>", "", false};

const XmlTags kDsmlTags = {.name_begin = "<｜DSML｜invoke name=\"",
                           .name_end = "\">",
                           .key_begin = "<｜DSML｜parameter name=\"",
                           .key_end = "\">",
                           .value_begin = "",
                           .value_end = "</｜DSML｜parameter>",
                           .call_end = "</｜DSML｜invoke>",
                           .outer_end = "</｜DSML｜function_calls>",
                           .has_lines = false,
                           .has_string_attribute = true,
                           .has_section = true};

bool XmlCallReader::Read(std::string& text, bool at_end, Pieces& pieces) {
  bool goes_on = true;
  while (goes_on && state_ != State::kEnded) {
    switch (state_) {
      case State::kBeginning:
        goes_on = ReadBeginning(text, at_end);
        break;
      case State::kName:
        goes_on = ReadName(text, at_end);
        break;
      case State::kNamed:
        goes_on = ReadNamed(text, at_end, pieces);
        break;
      case State::kBetween:
        goes_on = ReadBetween(text, at_end, pieces);
        break;
      case State::kKey:
        goes_on = ReadKey(text, at_end, pieces);
        break;
      case State::kValueBegin:
        goes_on = ReadValueBegin(text, at_end, pieces);
        break;
      case State::kValue:
        goes_on = ReadValue(text, at_end, pieces);
        break;
      case State::kAfter:
        goes_on = ReadAfter(text, at_end);
        break;
      case State::kEnded:
        break;
    }
  }
  return state_ == State::kEnded;
}

XmlCallReader::Found XmlCallReader::Take(std::string& text, const char* tag, bool at_end) {
  Skip(text, LeadingSpace(text));
  if (absl::StartsWith(text, tag)) {
    Skip(text, SizeOf(tag));
    return Found::kYes;
  }
  return !at_end && IsProperPrefix(text, tag) ? Found::kNotYet : Found::kNo;
}

bool XmlCallReader::ReadBeginning(std::string& text, bool at_end) {
  Skip(text, LeadingSpace(text));
  if (text.empty() && !at_end) return false;
  const Found found = Take(text, tags_.name_begin, at_end);
  if (found == Found::kNotYet) return false;
  state_ = found == Found::kYes ? State::kName : State::kEnded;
  return true;
}

bool XmlCallReader::ReadName(std::string& text, bool at_end) {
  const size_t end = text.find_first_of(kNoName);
  if (end == std::string::npos && !at_end && text.size() <= kMaxNameBytes) return false;
  if (end != std::string::npos && !at_end &&
      IsProperPrefix(absl::string_view(text).substr(end), tags_.name_end)) {
    return false;
  }
  const bool is_named = end != std::string::npos && end > 0 && end <= kMaxNameBytes &&
                        absl::StartsWith(absl::string_view(text).substr(end), tags_.name_end);
  if (!is_named) {
    state_ = State::kEnded;
    return true;
  }
  name_ = text.substr(0, end);
  Skip(text, end + SizeOf(tags_.name_end));
  state_ = State::kNamed;
  return true;
}

bool XmlCallReader::ReadNamed(std::string& text, bool at_end, Pieces& pieces) {
  const absl::string_view front = absl::StripLeadingAsciiWhitespace(text);
  if (absl::StartsWith(front, tags_.key_begin) || absl::StartsWith(front, tags_.call_end)) {
    Begin(name_, pieces);
    AppendArguments("{", pieces);
    types_ = std::make_unique<const ArgumentTypes>(SchemaOf(tools_, name_));
    num_arguments_ = 0;
    state_ = State::kBetween;
    return true;
  }
  if (!at_end &&
      (IsProperPrefix(front, tags_.key_begin) || IsProperPrefix(front, tags_.call_end))) {
    return false;
  }
  state_ = State::kEnded;
  return true;
}

bool XmlCallReader::ReadBetween(std::string& text, bool at_end, Pieces& pieces) {
  const Found key = Take(text, tags_.key_begin, at_end);
  if (key == Found::kYes) {
    state_ = State::kKey;
    return true;
  }
  const Found end = Take(text, tags_.call_end, at_end);
  if (key == Found::kNotYet || end == Found::kNotYet) return false;
  EndCall(pieces);
  // A call that is not closed in order may still have the outer tag.
  state_ = State::kAfter;
  return true;
}

bool XmlCallReader::ReadKey(std::string& text, bool at_end, Pieces& pieces) {
  const size_t end = text.substr(0, kMaxNameBytes).find(tags_.key_end);
  if (end == std::string::npos) {
    if (!at_end && text.size() < kMaxNameBytes) return false;
    EndCall(pieces);
    state_ = State::kEnded;
    return true;
  }
  key_ = std::string(absl::StripAsciiWhitespace(absl::string_view(text).substr(0, end)));
  if (tags_.has_string_attribute) {
    const size_t quote = std::min(key_.find('"'), key_.size());
    is_string_ = absl::EndsWith(absl::string_view(key_).substr(quote), "string=\"true");
    key_.resize(quote);
  }
  Skip(text, end + SizeOf(tags_.key_end));
  state_ = State::kValueBegin;
  return true;
}

bool XmlCallReader::ReadValueBegin(std::string& text, bool at_end, Pieces& pieces) {
  if (SizeOf(tags_.value_begin) > 0) {
    const Found found = Take(text, tags_.value_begin, at_end);
    if (found == Found::kNotYet) return false;
    if (found == Found::kNo) {
      EndCall(pieces);
      state_ = State::kEnded;
      return true;
    }
  }
  if (tags_.has_lines) {
    if (text.empty() && !at_end) return false;
    if (absl::StartsWith(text, "\n")) text.erase(0, 1);
  }
  streams_value_ = tags_.has_string_attribute ? is_string_ : types_->IsString(key_);
  has_value_ = false;
  num_searched_ = 0;
  state_ = State::kValue;
  return true;
}

void XmlCallReader::BeginValue(Pieces& pieces) {
  AppendArguments(absl::StrCat(num_arguments_++ > 0 ? ", " : "", ToJson(key_), ": "), pieces);
  has_value_ = true;
}

bool XmlCallReader::ReadValue(std::string& text, bool at_end, Pieces& pieces) {
  const size_t tag_size = SizeOf(tags_.value_end);
  const size_t end = text.find(tags_.value_end, num_searched_ - std::min(num_searched_, tag_size));
  num_searched_ = text.size();
  const bool is_whole = end != std::string::npos;
  size_t size = is_whole ? end : text.size() - (at_end ? 0 : HeldBack(text, {tags_.value_end}));
  const bool may_be_line = tags_.has_lines && size > 0 && text[size - 1] == '\n';
  if (may_be_line && (is_whole || !at_end)) --size;
  const absl::string_view value = absl::string_view(text).substr(0, size);
  if (streams_value_) {
    if (!has_value_) {
      BeginValue(pieces);
      AppendArguments("\"", pieces);
    }
    AppendArguments(EscapedForJson(value), pieces);
    if (is_whole) AppendArguments("\"", pieces);
  } else if (is_whole) {
    BeginValue(pieces);
    AppendArguments(types_->Value(key_, value), pieces);
  }
  if (is_whole) {
    text.erase(0, end + tag_size);
    state_ = State::kBetween;
    return true;
  }
  if (at_end) {  // cut off: the arguments stay open
    text.clear();
    state_ = State::kEnded;
    return true;
  }
  if (streams_value_) {
    text.erase(0, size);
    num_searched_ = text.size();
  }
  return false;
}

bool XmlCallReader::ReadAfter(std::string& text, bool at_end) {
  if (tags_.has_section) {
    const Found next = Take(text, tags_.name_begin, at_end);
    if (next == Found::kNotYet) return false;
    if (next == Found::kYes) {
      state_ = State::kName;
      return true;
    }
  }
  if (SizeOf(tags_.outer_end) > 0) {
    if (Take(text, tags_.outer_end, at_end) == Found::kNotYet) return false;
  }
  state_ = State::kEnded;
  return true;
}

void XmlCallReader::EndCall(Pieces& pieces) { AppendArguments("}", pieces); }

}  // namespace sluice::gateway
