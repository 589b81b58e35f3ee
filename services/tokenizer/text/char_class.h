// The few character classes that tokenizers use outside regular expressions. Pure functions.
#pragma once

#include <cstdint>

namespace sluice {

// Unicode's White_Space.
bool IsWhitespace(char32_t code_point);

// What \w means in Unicode regular expressions (UTS 18): Alphabetic, marks, decimal digits,
// connecting punctuation and the two joiners.
bool IsWordChar(char32_t code_point);

// General category Nd, Nl or No.
bool IsNumeric(char32_t code_point);

// General category M.
bool IsMark(char32_t code_point);

// General category P, or one of ASCII's other signs.
bool IsPunctuation(char32_t code_point);

}  // namespace sluice
