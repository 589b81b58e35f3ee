// Methods of Python's str; marks of text that came with the context are kept.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "services/tokenizer/jinja/run.h"

namespace sluice::jinja {

enum class Side { kLeft, kRight, kBoth };

// Where `part` begins in `text`, the first or the last time; npos where it does not. In time linear
// in both.
size_t FindBytes(std::string_view text, std::string_view part, size_t from = 0);
size_t FindLastBytes(std::string_view text, std::string_view part);

// Without the characters of `chars`, or without white space, at its sides.
Text Stripped(const Text& text, std::optional<std::string_view> chars, Side side);

// The parts between separators; white space where there is none. At most `max_splits` cuts are
// made, all for a negative number, from the left or the right.
std::vector<Text> SplitText(Run& run, const Text& text, std::optional<std::string_view> separator,
                            Int max_splits, bool from_right);
std::vector<Text> SplitLines(Run& run, const Text& text, bool keep_ends);

Text Replaced(Run& run, const Text& text, const Text& from, const Text& to, Int max_count);

enum class Case { kUpper, kLower, kTitle, kCapitalized, kSwapped };
Text WithCase(Run& run, const Text& text, Case change);

// Filled with `fill` to `width` characters; the text stands on that side.
Text Justified(Run& run, const Text& text, Int width, const Text& fill, Side side);

Text JoinTexts(Run& run, const Text& separator, const std::vector<Text>& parts);

}  // namespace sluice::jinja
