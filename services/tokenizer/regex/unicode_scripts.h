// The scripts of characters, from PCRE2's tables; those that Unicode knew up to version 10.
// Thread-safe.
#pragma once

#include <cstdint>

namespace sluice {

// Numbers of the scripts; which others there are and how they are numbered is of no concern.
enum class UnicodeScript : uint8_t { kUnknown, kHan, kHiragana, kKatakana };

// The script property: Common and Inherited are scripts like any other. The first call builds a
// table.
UnicodeScript UnicodeScriptOf(char32_t code_point);

}  // namespace sluice
