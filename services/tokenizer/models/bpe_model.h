// Byte-pair encoding (Sennrich et al., 2016) as tokenizer.json has it: over characters, or over
// bytes where the text comes in the byte-level alphabet; unknown characters as bytes or as one
// token.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "services/tokenizer/models/bpe_merger.h"
#include "services/tokenizer/models/merge_table.h"
#include "services/tokenizer/models/model.h"
#include "services/tokenizer/text/prefix_trie.h"
#include "services/tokenizer/vocabulary/vocabulary.h"

namespace sluice {

struct BpeOptions {
  TokenId unk_token = kNoToken;  // kNoToken: unknown characters vanish
  bool fuse_unk = false;         // neighbouring unknown characters become one token
  bool byte_fallback = false;    // unknown characters become "<0x..>" tokens where all are there
  bool ignore_merges = false;    // a piece that is a token stays whole
  // What the vocabulary's spelling has before each character of a piece but the first, and behind
  // the last one.
  std::string continuing_subword_prefix;
  std::string end_of_word_suffix;
  // Tokens that text becomes wherever it can, the longest first, and that do not merge: the table
  // is to hold no merge of them.
  std::vector<TokenId> whole_tokens;
  // Tokens that no text becomes by ignore_merges. Their merges are to be left out of the table.
  absl::flat_hash_set<TokenId> control_tokens;
};

class BpeModel : public Model {
 public:
  // `vocabulary` is borrowed and holds all tokens of the model.
  BpeModel(const Vocabulary& vocabulary, MergeTable merges, BpeOptions options);

  std::unique_ptr<ModelScratch> NewScratch() const override;
  void Tokenize(const Piece& piece, ModelScratch& scratch, Encoding* out) const override;

 private:
  struct Scratch;

  // Whether no merge reaches from another character to a visible space, so that a text may be taken
  // apart there.
  bool CanSplitAtSpaces() const;
  void TokenizeWord(const Piece& piece, Scratch& scratch, Encoding* out) const;
  // The token that the whole piece is, or kNoToken.
  TokenId WholeToken(const Piece& piece, Scratch& scratch) const;
  // Size and id of the longest of options_.whole_tokens that `text` begins with; 0 for none.
  std::pair<size_t, TokenId> WholeTokenAt(std::string_view text) const {
    if (options_.whole_tokens.empty()) return {0, kNoToken};
    return whole_tokens_.Longest(text);
  }
  // Fills scratch.symbols.
  void Encode(const Piece& piece, Scratch& scratch) const;
  // The same for pieces whose characters are spelled with a prefix or a suffix.
  void EncodeAffixed(const Piece& piece, Scratch& scratch) const;
  // Appends the token or tokens of one character that covers `num_bytes` bytes of the piece.
  void AddCharacter(std::string_view text, uint32_t num_bytes, Scratch& scratch) const;
  static void AddKnown(const BpeSymbol& symbol, Scratch& scratch);
  bool AddAsBytes(std::string_view text, uint32_t num_bytes, Scratch& scratch) const;
  void AddUnknown(uint32_t num_bytes, Scratch& scratch) const;

  const Vocabulary& vocabulary_;
  const MergeTable merges_;
  const BpeOptions options_;
  const bool has_affixes_;
  const bool splits_at_spaces_;
  PrefixTrie whole_tokens_;
  std::array<TokenId, 256> alphabet_;  // of each byte's character in the byte-level alphabet
  std::array<TokenId, 256> bytes_;     // "<0x00>" to "<0xFF>"
};

}  // namespace sluice
