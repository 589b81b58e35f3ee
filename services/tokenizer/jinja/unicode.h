// Characters as Python's str knows them. Bytes that are no UTF-8 count as U+FFFD, one for each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sluice::jinja {

struct Char {
  char32_t code_point;
  int length;  // bytes
};

// REQUIRES: at < text.size().
Char ReadChar(std::string_view text, size_t at);
Char ReadCharBefore(std::string_view text, size_t end);
void AppendChar(char32_t code_point, std::string* out);
size_t CountChars(std::string_view text);
// The byte where character number `index` begins; text.size() past the end.
size_t ByteOfChar(std::string_view text, size_t index);
bool IsUtf8(std::string_view text);

bool IsSpace(char32_t c);      // str.isspace
bool IsLineBreak(char32_t c);  // str.splitlines
bool IsPrintable(char32_t c);  // str.isprintable
bool IsAlpha(char32_t c);      // str.isalpha
bool IsDecimal(char32_t c);    // str.isdecimal
bool IsDigit(char32_t c);      // str.isdigit
bool IsNumeric(char32_t c);    // str.isnumeric
bool IsWordChar(char32_t c);   // \w
bool IsUpper(char32_t c);
bool IsLower(char32_t c);
bool IsTitle(char32_t c);
bool IsCased(char32_t c);

// Full mappings: one character may become several.
void AppendUpper(char32_t c, std::string* out);
void AppendLower(char32_t c, std::string* out);
void AppendTitle(char32_t c, std::string* out);

std::string ToLower(std::string_view text);

}  // namespace sluice::jinja
