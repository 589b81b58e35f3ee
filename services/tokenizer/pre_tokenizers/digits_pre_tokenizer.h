// Digits: sets numbers apart, whole or digit by digit.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "services/tokenizer/pre_tokenizers/pre_tokenizer.h"

namespace sluice {

absl::StatusOr<std::unique_ptr<PreTokenizer>> DigitsPreTokenizerFromJson(const JsonPlace& place);

}  // namespace sluice
