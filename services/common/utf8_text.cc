#include "services/common/utf8_text.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/escaping.h"

namespace sluice {
namespace {

bool Continues(char c) { return (static_cast<uint8_t>(c) & 0xC0) == 0x80; }

// Of the character at `at`; 0 where there is none that is whole.
size_t CharacterBytes(absl::string_view text, size_t at) {
  const auto first = static_cast<uint8_t>(text[at]);
  size_t size = 0;
  if (first < 0x80) {
    size = 1;
  } else if (first >= 0xC2 && first < 0xE0) {
    size = 2;
  } else if (first >= 0xE0 && first < 0xF0) {
    size = 3;
  } else if (first >= 0xF0 && first < 0xF5) {
    size = 4;
  }
  if (size == 0 || at + size > text.size()) return 0;
  for (size_t i = 1; i < size; ++i) {
    if (!Continues(text[at + i])) return 0;
  }
  if (size < 3) return size;
  // Longer than need be, a surrogate, or beyond the last character.
  const auto second = static_cast<uint8_t>(text[at + 1]);
  const bool wrong = (first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) ||
                     (first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F);
  return wrong ? 0 : size;
}

}  // namespace

bool IsUtf8(absl::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t size = CharacterBytes(text, at);
    if (size == 0) return false;
    at += size;
  }
  return true;
}

std::string CleanUtf8(absl::string_view text, size_t max_bytes) {
  std::string clean;
  clean.reserve(std::min(text.size(), max_bytes));
  for (size_t at = 0; at < text.size();) {
    const size_t size = CharacterBytes(text, at);
    if (clean.size() + std::max<size_t>(size, 1) > max_bytes) break;
    if (size == 0) {
      clean.push_back('?');
      ++at;
    } else {
      clean.append(text.data() + at, size);
      at += size;
    }
  }
  return clean;
}

std::string EscapedUnlessUtf8(absl::string_view text) {
  return IsUtf8(text) ? std::string(text) : absl::CHexEscape(text);
}

}  // namespace sluice
