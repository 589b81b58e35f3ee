// Text for people at a terminal. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace sluice {

// `text` with every control character but line breaks and tabs spelled out, as in \x1b: what a
// model writes must not move the cursor, change colours or answer for the keyboard. The control
// characters of Unicode (U+0080 to U+009F) are among them. Bytes that are not UTF-8 stay.
std::string Printable(absl::string_view text);

// How many columns help is written for in a terminal of so many: long lines are hard to read.
size_t HelpWidth(int columns);

// Breaks `text` between words into lines of at most `width` characters; its own line breaks stay.
std::vector<std::string> Wrapped(const std::string& text, size_t width);

// `head`, and beside it, from `column` on, `text` as lines; below the head where that reaches the
// column, and a little indented where the width leaves no room beside it.
std::string Hanging(std::string head, const std::string& text, size_t column, size_t width);

}  // namespace sluice
