#include "services/tokenizer/normalizers/chars_map.h"

#include "services/tokenizer/text/strings.h"
#include "services/tokenizer/text/utf8.h"

namespace sluice {
namespace {

constexpr size_t kMaxReplacement = 1024;

uint32_t ReadLittleEndian(std::string_view bytes, size_t at) {
  uint32_t value = 0;
  for (int i = 3; i >= 0; --i) value = value << 8 | static_cast<uint8_t>(bytes[at + i]);
  return value;
}

// A unit of the trie: the byte it is reached by, where its children are, and whether one of them
// holds a value.
bool HasValue(uint32_t unit) { return (unit >> 8 & 1) != 0; }
uint32_t Label(uint32_t unit) { return unit & (1u << 31 | 0xFF); }
uint32_t Offset(uint32_t unit) { return (unit >> 10) << ((unit & 1u << 9) >> 6); }
uint32_t Value(uint32_t unit) { return unit & ~(1u << 31); }

absl::Status CheckReplacements(std::string_view replacements) {
  if (FirstInvalidUtf8(replacements) != replacements.npos) {
    return absl::InvalidArgumentError("the character map has replacements that are not UTF-8");
  }
  size_t begin = 0;
  while (begin < replacements.size()) {
    const size_t end = std::min(replacements.find('\0', begin), replacements.size());
    if (end - begin > kMaxReplacement) {
      return absl::InvalidArgumentError(StrCat("the character map has a replacement of ",
                                               end - begin, " bytes; accepted: at most ",
                                               kMaxReplacement));
    }
    begin = end + 1;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CharsMap> CharsMap::Parse(std::string_view bytes) {
  if (bytes.size() < 4) {
    return absl::InvalidArgumentError(StrCat("the character map has ", bytes.size(),
                                             " bytes; accepted: a trie and its replacements"));
  }
  const size_t num_units = ReadLittleEndian(bytes, 0) / 4;
  bytes.remove_prefix(4);
  if (num_units == 0 || bytes.size() / 4 < num_units) {
    return absl::InvalidArgumentError(StrCat("the character map says that its trie has ", num_units,
                                             " units, but ", bytes.size(), " bytes follow"));
  }
  CharsMap map;
  map.trie_.reserve(num_units);
  for (size_t i = 0; i < num_units; ++i) map.trie_.push_back(ReadLittleEndian(bytes, 4 * i));
  map.replacements_ = bytes.substr(4 * num_units);
  if (auto status = CheckReplacements(map.replacements_); !status.ok()) return status;
  return map;
}

template <typename Found>
void CharsMap::Walk(std::string_view text, Found found) const {
  size_t node = Offset(trie_[0]);
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    node ^= byte;
    if (node >= trie_.size() || Label(trie_[node]) != byte) return;
    const uint32_t unit = trie_[node];
    node ^= Offset(unit);
    if (!HasValue(unit)) continue;
    if (node >= trie_.size() || !found(i + 1, Value(trie_[node]))) return;
  }
}

std::optional<CharsMap::Match> CharsMap::MatchOf(size_t length, uint32_t value) const {
  const std::string_view replacements = replacements_;
  if (value > replacements.size()) return std::nullopt;
  const std::string_view rest = replacements.substr(value);
  if (!rest.empty() && IsUtf8Continuation(rest.front())) return std::nullopt;
  return Match{length, rest.substr(0, rest.find('\0'))};
}

std::optional<CharsMap::Match> CharsMap::Longest(std::string_view text) const {
  std::optional<Match> match;
  Walk(text, [&](size_t length, uint32_t value) {
    match = MatchOf(length, value);
    return true;
  });
  return match;
}

std::optional<CharsMap::Match> CharsMap::Shortest(std::string_view text) const {
  std::optional<Match> match;
  Walk(text.substr(0, text.find('\0')), [&](size_t length, uint32_t value) {
    match = MatchOf(length, value);
    return false;
  });
  return match;
}

}  // namespace sluice
