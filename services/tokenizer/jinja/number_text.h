// Numbers as Python's int() and float() read them: white space around, underscores between digits.
#pragma once

#include <optional>
#include <string_view>

#include "services/tokenizer/jinja/value.h"

namespace sluice::jinja {

// `base`: 2 to 36, or 0 for what the prefix says. nullopt for what is no number, or too large.
std::optional<Int> ParseInt(std::string_view text, int base);
std::optional<double> ParseFloat(std::string_view text);

}  // namespace sluice::jinja
