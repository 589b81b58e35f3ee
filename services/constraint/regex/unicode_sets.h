// Sets of characters by the names that patterns give them. Pure; thread-safe.
#pragma once

#include <optional>
#include <string_view>

#include "services/constraint/regex/code_set.h"

namespace sluice {

// ECMA-262's \d, \w and \s.
CodeSet DigitSet();
CodeSet WordSet();
CodeSet SpaceSet();
// What a dot matches: all but the ends of lines.
CodeSet DotSet();

// \p{name}: general categories by short or long names (L, Letter, Lu, Uppercase_Letter, ...), also
// as General_Category=name or gc=name, and Any, ASCII. nullopt for other names (scripts among
// them).
std::optional<CodeSet> PropertySet(std::string_view name);

}  // namespace sluice
