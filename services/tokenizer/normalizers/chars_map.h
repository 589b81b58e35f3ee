// SentencePiece's precompiled replacement rules: a double-array trie (Darts; Aoe 1989) of what is
// replaced, and the replacements, each ended by a zero byte. Immutable, thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace sluice {

class CharsMap {
 public:
  // From its binary form. INVALID_ARGUMENT where that is cut short, its replacements are not UTF-8
  // or one is longer than 1,024 bytes.
  static absl::StatusOr<CharsMap> Parse(std::string_view bytes);

  struct Match {
    size_t length;  // of what is replaced
    std::string_view replacement;
  };
  // The longest beginning of `text` that has a replacement; nullopt for none.
  std::optional<Match> Longest(std::string_view text) const;
  // The shortest one. A zero byte ends the text.
  std::optional<Match> Shortest(std::string_view text) const;

 private:
  // Calls `found` with the length and the value of each beginning of `text` that the trie holds,
  // until it returns false.
  template <typename Found>
  void Walk(std::string_view text, Found found) const;
  std::optional<Match> MatchOf(size_t length, uint32_t value) const;

  std::vector<uint32_t> trie_;
  std::string replacements_;
};

}  // namespace sluice
