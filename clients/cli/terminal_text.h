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

// Characters of UTF-8 text.
size_t NumCharacters(absl::string_view text);

// Its first `most` characters, or all.
absl::string_view FirstCharacters(absl::string_view text, size_t most);

// `text` where it has at most `most` characters, else its beginning and "..".
std::string Shortened(absl::string_view text, size_t most);

// How many columns help is written for in a terminal of so many: long lines are hard to read.
size_t HelpWidth(int columns);

// `text` beside the name of what it says, as lines of a terminal with `width` characters; 0: as its
// own lines.
std::string Beside(const std::string& name, const std::string& text, size_t width);

// `text`, printable and on one line.
std::string OnOneLine(const std::string& text);

}  // namespace sluice
