// Character sets by the names that Oniguruma gives them, as PCRE2 writes them between brackets.
// Pure; thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace sluice {

// Of \s, \w or \h. REQUIRES: `letter` is one of these.
std::string_view SetOfEscape(char letter);

// What is not whitespace, written without a negation.
std::string_view NotWhitespaceSet();

// Of \p{name}: general categories by short and long names, Oniguruma's own names, scripts (without
// script extensions); other names are passed on as they are.
std::string SetOfProperty(std::string_view name);

// Of [:name:].
std::string SetOfBracketName(std::string_view name);

// The complement of a set that is one \p{...}; empty for other sets.
std::string NegatedSet(std::string_view set);

}  // namespace sluice
