// ByteLevel: spells the text in the byte-level alphabet, after splitting it at GPT-2's regular
// expression if asked to.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "services/tokenizer/pre_tokenizers/pre_tokenizer.h"

namespace sluice {

absl::StatusOr<std::unique_ptr<PreTokenizer>> ByteLevelPreTokenizerFromJson(const JsonPlace& place);

// Spells text in the byte-level alphabet, split at the matches of `pattern`. Errors as
// Regex::Compile.
absl::StatusOr<std::unique_ptr<PreTokenizer>> MakeByteLevelPreTokenizer(const std::string& pattern);

}  // namespace sluice
