#include "services/tokenizer/jinja/unicode.h"

#include <utf8proc.h>

namespace sluice::jinja {
namespace {

constexpr Char kBadByte{0xFFFD, 1};

utf8proc_category_t CategoryOf(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

bool IsTail(std::string_view text, size_t at) {
  return at < text.size() && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80;
}

}  // namespace

Char ReadChar(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<char32_t>(static_cast<uint8_t>(text[i])); };
  const char32_t first = byte(at);
  if (first < 0x80) return {first, 1};
  const int length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4) return kBadByte;
  char32_t c = first & (0x7F >> length);
  for (int i = 1; i < length; ++i) {
    if (!IsTail(text, at + i)) return kBadByte;
    c = (c << 6) | (byte(at + i) & 0x3F);
  }
  const bool too_long = (length == 3 && c < 0x800) || (length == 4 && c < 0x10000);
  if (too_long || c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) return kBadByte;
  return {c, length};
}

Char ReadCharBefore(std::string_view text, size_t end) {
  for (int length = 1; length <= 4 && static_cast<size_t>(length) <= end; ++length) {
    const Char c = ReadChar(text.substr(0, end), end - length);
    if (c.length == length && (length > 1 || c.code_point < 0x80)) return c;
  }
  return kBadByte;
}

void AppendChar(char32_t c, std::string* out) {
  if (c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) c = 0xFFFD;
  if (c < 0x80) {
    out->push_back(static_cast<char>(c));
    return;
  }
  const int tails = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  const uint32_t lead = tails == 1 ? 0xC0 : tails == 2 ? 0xE0 : 0xF0;
  out->push_back(static_cast<char>(lead | (c >> (6 * tails))));
  for (int i = tails - 1; i >= 0; --i) {
    out->push_back(static_cast<char>(0x80 | ((c >> (6 * i)) & 0x3F)));
  }
}

size_t CountChars(std::string_view text) {
  size_t chars = 0;
  for (size_t at = 0; at < text.size(); at += ReadChar(text, at).length) ++chars;
  return chars;
}

size_t ByteOfChar(std::string_view text, size_t index) {
  size_t at = 0;
  for (; index > 0 && at < text.size(); --index) at += ReadChar(text, at).length;
  return at;
}

bool IsUtf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const Char c = ReadChar(text, at);
    if (c.length == 1 && c.code_point >= 0x80) return false;
    at += c.length;
  }
  return true;
}

bool IsSpace(char32_t c) {
  return (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

bool IsLineBreak(char32_t c) {
  return (c >= 10 && c <= 13) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

bool IsPrintable(char32_t c) {
  if (c < 0x7F) return c >= 0x20;
  const utf8proc_category_t category = CategoryOf(c);
  return category != UTF8PROC_CATEGORY_CC && category != UTF8PROC_CATEGORY_CF &&
         category != UTF8PROC_CATEGORY_CS && category != UTF8PROC_CATEGORY_CO &&
         category != UTF8PROC_CATEGORY_CN && category != UTF8PROC_CATEGORY_ZL &&
         category != UTF8PROC_CATEGORY_ZP && category != UTF8PROC_CATEGORY_ZS;
}

bool IsAlpha(char32_t c) {
  const utf8proc_category_t category = CategoryOf(c);
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

bool IsDecimal(char32_t c) { return CategoryOf(c) == UTF8PROC_CATEGORY_ND; }

bool IsDigit(char32_t c) {
  return IsDecimal(c) || c == 0xB2 || c == 0xB3 || c == 0xB9 || c == 0x2070 ||
         (c >= 0x2074 && c <= 0x2079) || (c >= 0x2080 && c <= 0x2089) ||
         (c >= 0x2460 && c <= 0x2468);
}

bool IsNumeric(char32_t c) {
  const utf8proc_category_t category = CategoryOf(c);
  return category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO;
}

bool IsWordChar(char32_t c) { return c == '_' || IsAlpha(c) || IsNumeric(c); }

bool IsUpper(char32_t c) { return CategoryOf(c) == UTF8PROC_CATEGORY_LU; }
bool IsLower(char32_t c) { return CategoryOf(c) == UTF8PROC_CATEGORY_LL || c == 0xAA || c == 0xBA; }
bool IsTitle(char32_t c) { return CategoryOf(c) == UTF8PROC_CATEGORY_LT; }
bool IsCased(char32_t c) { return IsUpper(c) || IsLower(c) || IsTitle(c); }

void AppendUpper(char32_t c, std::string* out) {
  switch (c) {  // those that become several
    case 0xDF:
      out->append("SS");
      return;
    case 0x149:
      out->append("\xCA\xBCN");
      return;
    case 0xFB00:
      out->append("FF");
      return;
    case 0xFB01:
      out->append("FI");
      return;
    case 0xFB02:
      out->append("FL");
      return;
    default:
      AppendChar(utf8proc_toupper(static_cast<utf8proc_int32_t>(c)), out);
  }
}

void AppendLower(char32_t c, std::string* out) {
  if (c == 0x130) {
    out->append("i\xCC\x87");
    return;
  }
  AppendChar(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)), out);
}

void AppendTitle(char32_t c, std::string* out) {
  if (c == 0xDF) {
    out->append("Ss");
    return;
  }
  if (c == 0xFB00 || c == 0xFB01 || c == 0xFB02) {
    out->append(c == 0xFB00 ? "Ff" : c == 0xFB01 ? "Fi" : "Fl");
    return;
  }
  AppendChar(utf8proc_totitle(static_cast<utf8proc_int32_t>(c)), out);
}

std::string ToLower(std::string_view text) {
  std::string lower;
  for (size_t at = 0; at < text.size();) {
    const Char c = ReadChar(text, at);
    AppendLower(c.code_point, &lower);
    at += c.length;
  }
  return lower;
}

}  // namespace sluice::jinja
