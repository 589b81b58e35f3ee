// Models that look whole words up: WordLevel, and WordPiece, which takes a word apart from the
// left, the longest token first. A word that they do not know becomes one unknown token.
#pragma once

#include <memory>
#include <string>

#include "absl/container/flat_hash_set.h"
#include "services/tokenizer/models/model.h"
#include "services/tokenizer/vocabulary/vocabulary.h"

namespace sluice {

struct WordModelOptions {
  TokenId unk_token = kNoToken;  // kNoToken: unknown words vanish
  // Tokens that no text becomes.
  absl::flat_hash_set<TokenId> control_tokens;
};

struct WordPieceOptions {
  std::string continuing_subword_prefix;  // of tokens that do not begin a word
  int max_chars = 100;                    // longer words are unknown
};

// `vocabulary` is borrowed and holds all tokens of the model.
std::unique_ptr<Model> MakeWordLevelModel(const Vocabulary& vocabulary, WordModelOptions options);
std::unique_ptr<Model> MakeWordPieceModel(const Vocabulary& vocabulary, WordModelOptions options,
                                          WordPieceOptions pieces);

}  // namespace sluice
