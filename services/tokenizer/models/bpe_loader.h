// Builds a byte-pair encoding from a tokenizer.json that was read. Only .cc files include this
// header.
#pragma once

#include <memory>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "services/tokenizer/models/model.h"
#include "services/tokenizer/tokenizer_file.h"
#include "services/tokenizer/vocabulary.h"

namespace sluice {

// The model's tokens. INVALID_ARGUMENT where model.vocab is missing, empty or has a token or an id
// twice.
absl::StatusOr<Vocabulary> BpeVocabularyFromFile(const TokenizerFile& file);

// `vocabulary`, from the function above, is borrowed. `control_tokens` never come about by merging,
// so that no text can smuggle one in where special tokens are not parsed. INVALID_ARGUMENT where a
// merge is of unknown pieces or a setting has a wrong type, UNIMPLEMENTED for settings that are not
// supported; both name file, path and value.
absl::StatusOr<std::unique_ptr<Model>> BpeModelFromFile(
    const TokenizerFile& file, const Vocabulary& vocabulary,
    const absl::flat_hash_set<TokenId>& control_tokens);

}  // namespace sluice
