// ByteLevel: spells the text in the byte-level alphabet, after splitting it at GPT-2's regular
// expression if asked to.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "services/tokenizer/pre_tokenizers/pre_tokenizer.h"

namespace sluice {

absl::StatusOr<std::unique_ptr<PreTokenizer>> ByteLevelPreTokenizerFromJson(const JsonPlace& place);

}  // namespace sluice
