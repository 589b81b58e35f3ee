// Split: at the matches of a regular expression or a string, or at what lies between them.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "services/tokenizer/pre_tokenizers/delimiters.h"
#include "services/tokenizer/pre_tokenizers/pre_tokenizer.h"
#include "services/tokenizer/regex/regex.h"

namespace sluice {

struct SplitOptions {
  DelimiterBehavior behavior = DelimiterBehavior::kIsolated;
  bool invert = false;  // the delimiters are what does not match
};

// Splits `piece` at the matches of `regex`. RESOURCE_EXHAUSTED where matching runs into a limit.
absl::Status SplitAtMatches(const Regex& regex, const SplitOptions& options, const Piece& piece,
                            RegexScratch& scratch, PieceSink sink);

absl::StatusOr<std::unique_ptr<PreTokenizer>> SplitPreTokenizerFromJson(const JsonPlace& place);

}  // namespace sluice
