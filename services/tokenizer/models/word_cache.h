// Remembers the tokens of short words, most of which come again and again. A fixed number of
// entries: a new word takes the place of the one that hashes alike. No allocation after
// construction. Not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "absl/hash/hash.h"
#include "absl/types/span.h"
#include "services/tokenizer/text/token.h"

namespace sluice {

class WordCache {
 public:
  static constexpr size_t kMaxWordBytes = 30;
  static constexpr size_t kMaxTokens = 8;

  WordCache() : entries_(kNumEntries) {}

  // The tokens remembered for `word`; empty for none. Valid until the next Put.
  absl::Span<const TokenId> Get(std::string_view word) const {
    if (word.size() > kMaxWordBytes) return {};
    const Entry& entry = entries_[Index(word)];
    if (entry.word_size != word.size() ||
        std::memcmp(entry.word.data(), word.data(), word.size()) != 0) {
      return {};
    }
    return absl::MakeConstSpan(entry.tokens.data(), entry.num_tokens);
  }

  // Remembers them if they fit. REQUIRES: the word is not empty.
  void Put(std::string_view word, absl::Span<const TokenId> tokens) {
    if (word.size() > kMaxWordBytes || tokens.size() > kMaxTokens) return;
    Entry& entry = entries_[Index(word)];
    entry.word_size = static_cast<uint8_t>(word.size());
    entry.num_tokens = static_cast<uint8_t>(tokens.size());
    std::memcpy(entry.word.data(), word.data(), word.size());
    std::memcpy(entry.tokens.data(), tokens.data(), tokens.size() * sizeof(TokenId));
  }

 private:
  static constexpr size_t kNumEntries = 1 << 14;

  // One cache line.
  struct alignas(64) Entry {
    uint8_t word_size = 0;
    uint8_t num_tokens = 0;
    std::array<char, kMaxWordBytes> word;
    std::array<TokenId, kMaxTokens> tokens;
  };
  static_assert(sizeof(Entry) == 64);

  static size_t Index(std::string_view word) { return absl::HashOf(word) & (kNumEntries - 1); }

  std::vector<Entry> entries_;
};

}  // namespace sluice
