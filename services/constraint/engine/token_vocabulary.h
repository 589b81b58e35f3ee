// The tokens of one model as bytes, arranged for masks: which of them a grammar's state allows.
// Immutable once built, then thread-safe; shared by all grammars of the model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "services/constraint/engine/token_speller.h"
#include "services/constraint/engine/token_trie.h"

namespace sluice {

// A bit for each token id, from the lowest bit of the first word on: 1 where it is allowed.
using TokenMask = std::vector<uint64_t>;

inline void Allow(TokenMask& mask, int32_t token) {
  mask[static_cast<size_t>(token) / 64] |= uint64_t{1} << (token % 64);
}

struct TokenVocabularyOptions {
  // By id. Tokens without bytes are never allowed by a text: special ones, and gaps among the ids.
  std::vector<std::string> bytes;
  // Allowed where the text may end. None of them may have bytes.
  std::vector<int32_t> end_ids;
};

class TokenVocabulary {
 public:
  // INVALID_ARGUMENT where there is no id, a token is longer than 65,535 bytes, or an end id is
  // none of the ids or has bytes.
  static absl::StatusOr<std::shared_ptr<const TokenVocabulary>> Create(
      TokenVocabularyOptions options);

  size_t size() const { return bytes_.size(); }
  size_t mask_words() const { return (size() + 63) / 64; }
  const std::string& bytes(int32_t token) const { return bytes_[token]; }
  absl::Span<const int32_t> end_ids() const { return end_ids_; }
  bool IsEnd(int32_t token) const;
  size_t max_token_bytes() const { return max_token_bytes_; }

  const TokenSpeller& speller() const { return speller_; }

  // Tokens that are whole characters, each of which may stand in a JSON string as it is.
  const TokenTrie& plain() const { return plain_; }
  // All others.
  const TokenTrie& other() const { return other_; }

  // --- What may follow in a JSON string that may hold any characters.

  // Tokens that stay in the string, with the characters that they need room for: whole ones, and
  // one that they begin.
  // Writes those that need at most `room` to `mask`, which has mask_words() words.
  void TokensInString(uint32_t room, TokenMask& mask) const;

  // A token that ends the string after `characters` of its content.
  struct Closing {
    int32_t token = 0;
    uint32_t characters = 0;
  };
  // By what follows the quote; its tokens are indices into closings().
  const TokenTrie& behind_quote() const { return behind_quote_; }
  absl::Span<const Closing> closings() const { return closings_; }

  size_t memory() const;

 private:
  TokenVocabulary() = default;
  void BuildTries();

  std::vector<std::string> bytes_;
  std::vector<int32_t> end_ids_;
  size_t max_token_bytes_ = 0;
  TokenSpeller speller_;
  TokenTrie plain_;
  TokenTrie other_;
  static constexpr uint32_t kMaxRoom = 24;
  // By room: the tokens that need no more; the last: those that stay in the string at all.
  std::vector<TokenMask> in_string_;
  std::vector<std::pair<uint32_t, int32_t>> long_in_string_;  // room above kMaxRoom, token; sorted
  TokenTrie behind_quote_;
  std::vector<Closing> closings_;
};

}  // namespace sluice
