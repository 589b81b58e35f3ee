// Pre-tokenizers that look at one character at a time.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "services/tokenizer/pre_tokenizers/pre_tokenizer.h"

namespace sluice {

// Sets numbers apart, whole or digit by digit.
absl::StatusOr<std::unique_ptr<PreTokenizer>> DigitsPreTokenizerFromJson(const JsonPlace& place);
// Splits at punctuation.
absl::StatusOr<std::unique_ptr<PreTokenizer>> PunctuationPreTokenizerFromJson(
    const JsonPlace& place);
// Splits at one character, which is left out.
absl::StatusOr<std::unique_ptr<PreTokenizer>> CharDelimiterPreTokenizerFromJson(
    const JsonPlace& place);
// Pieces of so many characters.
absl::StatusOr<std::unique_ptr<PreTokenizer>> FixedLengthPreTokenizerFromJson(
    const JsonPlace& place);

// What lies between whitespace.
std::unique_ptr<PreTokenizer> MakeWhitespaceSplitPreTokenizer();
// The same, with each punctuation character apart.
std::unique_ptr<PreTokenizer> MakeBertPreTokenizer();
// The matches of \w+|[^\w\s]+.
std::unique_ptr<PreTokenizer> MakeWhitespacePreTokenizer();
// Runs of characters of one script. Kana counts as Han; spaces and unassigned characters belong to
// what they follow.
std::unique_ptr<PreTokenizer> MakeUnicodeScriptsPreTokenizer();

}  // namespace sluice
