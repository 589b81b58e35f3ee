#include "services/gateway/json/raw_member.h"

#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"

namespace sluice::gateway {
namespace {

// Parsing a value that keeps its order searches an object once for each of its members.
constexpr int kMostOrderedMembers = 512;

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

// Whether the string `key`, with its quotes, is `name` once its escapes are decoded: parsers compare
// names decoded, and a second spelling of a name must not give another value than theirs.
bool IsName(absl::string_view key, absl::string_view name) {
  if (key.size() < 2) return false;
  if (!absl::StrContains(key, '\\')) return key.substr(1, key.size() - 2) == name;
  const auto decoded = nlohmann::json::parse(key.begin(), key.end(), nullptr,
                                             /*allow_exceptions=*/false);
  return decoded.is_string() && decoded.get_ref<const std::string&>() == name;
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
    if (IsName(key, name)) found = value;
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

bool HasLargeObject(absl::string_view text) {
  std::vector<int> num_colons = {0};  // by level: an object has one for each of its members
  while (!text.empty()) {
    const char c = text.front();
    if (c == '"') {
      TakeString(text);
      continue;
    }
    if (c == '{' || c == '[') num_colons.push_back(0);
    if ((c == '}' || c == ']') && num_colons.size() > 1) num_colons.pop_back();
    if (c == ':' && ++num_colons.back() > kMostOrderedMembers) return true;
    text.remove_prefix(1);
  }
  return false;
}

nlohmann::ordered_json OrderedMember(absl::string_view text,
                                     std::initializer_list<absl::string_view> path) {
  const std::optional<absl::string_view> value = RawMember(text, path);
  if (!value.has_value() || HasLargeObject(*value)) return nullptr;
  auto parsed = nlohmann::ordered_json::parse(value->begin(), value->end(), nullptr,
                                              /*allow_exceptions=*/false);
  return parsed.is_discarded() ? nullptr : parsed;
}

const nlohmann::ordered_json* FindMember(const nlohmann::ordered_json& value, const char* name) {
  if (!value.is_object()) return nullptr;
  const auto member = value.find(name);
  return member == value.end() ? nullptr : &*member;
}

}  // namespace sluice::gateway
