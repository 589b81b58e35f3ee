#include "services/gateway/json/raw_member.h"

#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"

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

// The name that a string with its quotes spells.
std::string NameOf(absl::string_view quoted) {
  if (quoted.find('\\') == absl::string_view::npos) {
    return std::string(quoted.substr(1, quoted.size() - 2));
  }
  const auto name = nlohmann::json::parse(quoted.begin(), quoted.end(), nullptr,
                                          /*allow_exceptions=*/false);
  return name.is_string() ? name.get<std::string>() : std::string(quoted);
}

// Whether a string with its quotes spells `name`: parsers compare names decoded, and a second
// spelling of a name must not give another value than theirs.
bool IsName(absl::string_view quoted, absl::string_view name) {
  if (quoted.size() < name.size() + 2) return false;  // escapes are longer than what they spell
  if (quoted.find('\\') == absl::string_view::npos) {
    return quoted.substr(1, quoted.size() - 2) == name;
  }
  return NameOf(quoted) == name;
}

// Hands each member's name, with its quotes, and value to `use`.
template <class Use>
void ForEachMember(absl::string_view object, Use use) {
  SkipSpace(object);
  if (object.empty() || object.front() != '{') return;
  do {
    object.remove_prefix(1);  // the brace, or a comma
    SkipSpace(object);
    if (object.size() < 2 || object.front() != '"') return;
    const absl::string_view name = TakeString(object);
    SkipSpace(object);
    if (object.empty() || object.front() != ':') return;
    object.remove_prefix(1);
    SkipSpace(object);
    use(name, TakeValue(object));
  } while (!object.empty() && object.front() == ',');
}

std::optional<absl::string_view> MemberOf(absl::string_view object, absl::string_view name) {
  std::optional<absl::string_view> found;
  ForEachMember(object, [&](absl::string_view key, absl::string_view value) {
    if (IsName(key, name)) found = value;
  });
  return found;
}

}  // namespace

std::vector<std::pair<std::string, absl::string_view>> RawMembers(absl::string_view text) {
  std::vector<std::pair<std::string, absl::string_view>> members;
  ForEachMember(text, [&](absl::string_view name, absl::string_view value) {
    members.emplace_back(NameOf(name), value);
  });
  return members;
}

std::vector<absl::string_view> RawElements(absl::string_view text) {
  std::vector<absl::string_view> elements;
  SkipSpace(text);
  if (text.empty() || text.front() != '[') return elements;
  do {
    text.remove_prefix(1);  // the bracket, or a comma
    SkipSpace(text);
    const absl::string_view element = TakeValue(text);
    if (element.empty()) break;
    elements.push_back(element);
  } while (!text.empty() && text.front() == ',');
  return elements;
}

std::optional<absl::string_view> RawMember(absl::string_view text,
                                           std::initializer_list<absl::string_view> path) {
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

}  // namespace sluice::gateway
