#include "services/tokenizer/chat_continuation.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "absl/strings/ascii.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

// The text that a message ends with: its content, or that of the last part of it.
std::string FinalText(const Json& message) {
  const auto content = message.find("content");
  if (content == message.end()) return "";
  if (content->is_string()) return content->get<std::string>();
  if (!content->is_array() || content->empty() || !content->back().is_object()) return "";
  const auto text = content->back().find("text");
  return text != content->back().end() && text->is_string() ? text->get<std::string>() : "";
}

// Where the last occurrence of `content` ends that was made of the request: templates may write the
// same text themselves, such as a line break.
std::optional<size_t> EndOf(std::string_view content, const jinja::Rendering& rendering) {
  if (content.empty()) return std::nullopt;
  const std::string_view text = rendering.text;
  for (auto range = rendering.untrusted.rbegin(); range != rendering.untrusted.rend(); ++range) {
    const size_t at = text.substr(range->begin, range->end - range->begin).rfind(content);
    if (at != std::string_view::npos) return range->begin + at + content.size();
  }
  return std::nullopt;
}

void CutRanges(size_t end, std::vector<jinja::TextRange>& ranges) {
  ranges.erase(std::find_if(ranges.begin(), ranges.end(),
                            [end](const jinja::TextRange& range) { return range.begin >= end; }),
               ranges.end());
  if (!ranges.empty()) ranges.back().end = std::min(ranges.back().end, end);
}

}  // namespace

absl::Status EndInFinalMessage(const Json& variables, jinja::Rendering& rendering) {
  const auto begins = variables.find("add_generation_prompt");
  if (begins != variables.end() && *begins == true) return absl::OkStatus();
  const auto messages = variables.find("messages");
  if (messages == variables.end() || messages->empty()) {
    return absl::InvalidArgumentError("continue_final_message needs a message");
  }
  const std::string content = FinalText(messages->back());
  // Many templates trim contents.
  std::optional<size_t> end = EndOf(content, rendering);
  if (!end.has_value()) {
    end = EndOf(std::string(absl::StripTrailingAsciiWhitespace(content)), rendering);
  }
  if (!end.has_value()) end = EndOf(std::string(absl::StripAsciiWhitespace(content)), rendering);
  if (!end.has_value()) {
    return absl::InvalidArgumentError(
        "continue_final_message: the chat template does not write the last message's content as it "
        "is, so that nothing can go on with it");
  }
  rendering.text.resize(*end);
  CutRanges(*end, rendering.untrusted);
  CutRanges(*end, rendering.generations);
  return absl::OkStatus();
}

}  // namespace sluice
