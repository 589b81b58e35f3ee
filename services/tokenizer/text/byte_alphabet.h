// The byte-level alphabet that GPT-2 introduced: every byte has a printable character, so that any
// text can be spelled with 256 of them. Bytes that are printable in Latin-1 stand for themselves;
// the others take the characters from U+0100 on, in order. Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sluice {

// The character of a byte, as UTF-8.
std::string_view ByteToAlphabet(uint8_t byte);

// Spells bytes in the alphabet.
void AppendInAlphabet(std::string_view bytes, std::string* out);

// Appends the bytes that `text` spells; where any character is not of the alphabet, appends nothing
// and returns false. REQUIRES: valid UTF-8.
bool AppendFromAlphabet(std::string_view text, std::string* out);

}  // namespace sluice
