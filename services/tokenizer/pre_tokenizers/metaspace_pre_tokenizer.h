// Metaspace: spaces become a visible character, one is put in front, and pieces begin with it.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "services/tokenizer/pre_tokenizers/pre_tokenizer.h"

namespace sluice {

absl::StatusOr<std::unique_ptr<PreTokenizer>> MetaspacePreTokenizerFromJson(const JsonPlace& place);

}  // namespace sluice
