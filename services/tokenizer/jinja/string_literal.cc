#include "services/tokenizer/jinja/string_literal.h"

#include <cctype>

#include "services/tokenizer/jinja/unicode.h"

namespace sluice::jinja {
namespace {

// The character that `letter` stands for behind a backslash; 0 for letters that stand for none.
char SimpleEscape(char letter) {
  switch (letter) {
    case 'n':
      return '\n';
    case 't':
      return '\t';
    case 'r':
      return '\r';
    case 'a':
      return '\a';
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'v':
      return '\v';
    case '\\':
    case '\'':
    case '"':
      return letter;
    default:
      return 0;
  }
}

bool IsOctal(char c) { return c >= '0' && c <= '7'; }

// Reads exactly `digits` hexadecimal digits.
std::optional<char32_t> ReadHex(std::string_view text, size_t at, int digits) {
  char32_t value = 0;
  for (int i = 0; i < digits; ++i, ++at) {
    if (at >= text.size() || !std::isxdigit(static_cast<unsigned char>(text[at]))) {
      return std::nullopt;
    }
    const char c = text[at];
    value = value * 16 + (c <= '9' ? c - '0' : std::tolower(c) - 'a' + 10);
  }
  return value;
}

}  // namespace

std::optional<std::string> UnescapeLiteral(std::string_view literal, std::string* text) {
  for (size_t at = 0; at < literal.size(); ++at) {
    if (literal[at] != '\\' || at + 1 == literal.size()) {
      text->push_back(literal[at]);
      continue;
    }
    const char letter = literal[++at];
    const int hex_digits = letter == 'x' ? 2 : letter == 'u' ? 4 : letter == 'U' ? 8 : 0;
    if (const char simple = SimpleEscape(letter); simple != 0) {
      text->push_back(simple);
    } else if (letter == '\n') {
      continue;
    } else if (IsOctal(letter)) {
      char32_t value = 0;
      size_t end = at;
      for (; end < literal.size() && end < at + 3 && IsOctal(literal[end]); ++end) {
        value = value * 8 + (literal[end] - '0');
      }
      AppendChar(value, text);
      at = end - 1;
    } else if (hex_digits > 0) {
      const std::optional<char32_t> value = ReadHex(literal, at + 1, hex_digits);
      if (!value.has_value()) {
        return letter == 'x'   ? "truncated \\xXX escape"
               : letter == 'u' ? "truncated \\uXXXX escape"
                               : "truncated \\UXXXXXXXX escape";
      }
      if (*value > 0x10FFFF) return "illegal Unicode character";
      AppendChar(*value, text);
      at += hex_digits;
    } else if (letter == 'N') {
      return "names of characters are not supported";
    } else {
      text->push_back('\\');
      text->push_back(letter);
    }
  }
  return std::nullopt;
}

}  // namespace sluice::jinja
