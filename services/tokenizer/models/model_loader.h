// Builds the model of a tokenizer.json that was read: BPE, Unigram, WordPiece or WordLevel. Only
// .cc files include this header.
#pragma once

#include <memory>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "services/tokenizer/models/model.h"
#include "services/tokenizer/vocabulary/tokenizer_file.h"
#include "services/tokenizer/vocabulary/vocabulary.h"

namespace sluice {

// The model's tokens. INVALID_ARGUMENT where model.vocab is missing, empty or has a token or an id
// twice; UNIMPLEMENTED where the model is of another kind.
absl::StatusOr<Vocabulary> VocabularyFromFile(const TokenizerFile& file);

// `vocabulary`, from the function above, is borrowed. No text becomes one of `control_tokens`, so
// that none can be smuggled in where special tokens are not parsed. INVALID_ARGUMENT where a merge
// is of unknown pieces or a setting has a wrong type, UNIMPLEMENTED for settings that are not
// supported; both name file, path and value.
absl::StatusOr<std::unique_ptr<Model>> ModelFromFile(
    const TokenizerFile& file, const Vocabulary& vocabulary,
    const absl::flat_hash_set<TokenId>& control_tokens);

}  // namespace sluice
