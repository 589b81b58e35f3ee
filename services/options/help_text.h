// Lines of a --help. Pure functions.
#pragma once

#include <string>
#include <vector>

namespace sluice {

// Breaks `text` between words into lines of at most `width` characters; its own line breaks stay.
std::vector<std::string> Wrapped(const std::string& text, size_t width);

// `head`, and beside it, from `column` on, `text` as lines; below the head where that reaches the
// column, and a little indented where the width leaves no room beside it.
std::string Hanging(std::string head, const std::string& text, size_t column, size_t width);

}  // namespace sluice
