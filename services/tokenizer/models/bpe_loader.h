// Builds a byte-pair encoding from a tokenizer.json that was read. Only .cc files include this
// header.
#pragma once

#include <memory>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "services/tokenizer/models/model.h"
#include "services/tokenizer/vocabulary/tokenizer_file.h"
#include "services/tokenizer/vocabulary/vocabulary.h"

namespace sluice {

// As ModelFromFile.
absl::StatusOr<std::unique_ptr<Model>> BpeModelFromFile(
    const TokenizerFile& file, const Vocabulary& vocabulary,
    const absl::flat_hash_set<TokenId>& control_tokens);

}  // namespace sluice
