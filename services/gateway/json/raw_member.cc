#include "services/gateway/json/raw_member.h"

#include "absl/strings/ascii.h"

namespace sluice::gateway {
namespace {

void SkipSpace(absl::string_view& text) { text = absl::StripLeadingAsciiWhitespace(text); }

// The string that `text` begins with, with its quotes; all of it where it has no end.
absl::string_view TakeString(absl::string_view& text) {
  size_t end = 1;
  while (end < text.size() && text[end] != '"') end += text[end] == '\\' ? 2 : 1;
  const absl::string_view taken = text.substr(0, end + 1);
  text.remove_prefix(taken.size());
  return taken;
}

// The value that `text` begins with.
absl::string_view TakeValue(absl::string_view& text) {
  const absl::string_view all = text;
  int depth = 0;
  while (!text.empty()) {
    const char c = text.front();
    if (depth == 0 && (c == ',' || c == '}' || c == ']')) break;
    if (c == '"') {
      TakeString(text);
      continue;
    }
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    text.remove_prefix(1);
  }
  return absl::StripTrailingAsciiWhitespace(all.substr(0, all.size() - text.size()));
}

std::optional<absl::string_view> MemberOf(absl::string_view object, absl::string_view name) {
  std::optional<absl::string_view> found;
  if (object.empty() || object.front() != '{') return found;
  do {
    object.remove_prefix(1);  // the brace, or a comma
    SkipSpace(object);
    if (object.empty() || object.front() != '"') break;
    const absl::string_view key = TakeString(object);
    SkipSpace(object);
    if (object.empty() || object.front() != ':') break;
    object.remove_prefix(1);
    SkipSpace(object);
    const absl::string_view value = TakeValue(object);
    if (key.size() == name.size() + 2 && key.substr(1, name.size()) == name) found = value;
  } while (!object.empty() && object.front() == ',');
  return found;
}

}  // namespace

std::optional<absl::string_view> RawMember(absl::string_view text,
                                           std::initializer_list<absl::string_view> path) {
  SkipSpace(text);
  std::optional<absl::string_view> value = text;
  for (const absl::string_view name : path) {
    if (value.has_value()) value = MemberOf(*value, name);
  }
  return value;
}

nlohmann::ordered_json OrderedMember(absl::string_view text,
                                     std::initializer_list<absl::string_view> path) {
  const std::optional<absl::string_view> value = RawMember(text, path);
  if (!value.has_value()) return nullptr;
  auto parsed = nlohmann::ordered_json::parse(value->begin(), value->end(), nullptr,
                                              /*allow_exceptions=*/false);
  return parsed.is_discarded() ? nullptr : parsed;
}

}  // namespace sluice::gateway
