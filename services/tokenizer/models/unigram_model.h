// Unigram (Kudo, 2018): the sequence of tokens with the highest sum of scores, found with Viterbi's
// algorithm; of equal ones the one whose last token begins first. Characters that no token covers
// become one unknown token, or bytes.
#pragma once

#include <array>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "services/tokenizer/models/model.h"
#include "services/tokenizer/text/prefix_trie.h"
#include "services/tokenizer/vocabulary/vocabulary.h"

namespace sluice {

struct UnigramOptions {
  TokenId unk_id = kNoToken;   // kNoToken: unknown characters vanish
  bool byte_fallback = false;  // unknown characters become "<0x..>" tokens where all are there
  // Tokens that no text becomes.
  absl::flat_hash_set<TokenId> unused;
  // Tokens that text becomes wherever it can, whatever their scores.
  absl::flat_hash_set<TokenId> user_defined;
  // As SentencePiece has it: sums of scores have single precision, and only tokens that are neither
  // unused nor user-defined count for the score of unknown characters.
  bool single_precision = false;
};

class UnigramModel : public Model {
 public:
  // `vocabulary` is borrowed and holds all tokens of the model; `scores` are by id.
  UnigramModel(const Vocabulary& vocabulary, std::vector<double> scores, UnigramOptions options);

  std::unique_ptr<ModelScratch> NewScratch() const override;
  void Tokenize(const Piece& piece, ModelScratch& scratch, Encoding* out) const override;

 private:
  struct Scratch;

  void TokenizeText(const Piece& piece, Scratch& scratch, Encoding* out) const;
  // Finds unk_score_ and the scores of user-defined tokens.
  void CompleteScores();
  // Fills scratch.best; false where the pace of `scratch` stops.
  bool FindBestPath(std::string_view text, Scratch& scratch) const;
  // Bytes [begin, end) of the piece: one token, or characters that none covers.
  void Append(const Piece& piece, size_t begin, size_t end, Encoding* out) const;
  bool AppendAsBytes(const Piece& piece, size_t begin, size_t end, Encoding* out) const;

  const Vocabulary& vocabulary_;
  const UnigramOptions options_;
  std::vector<double> scores_;
  double unk_score_;
  PrefixTrie trie_;
  std::array<TokenId, 256> bytes_;  // "<0x00>" to "<0xFF>"
};

}  // namespace sluice
