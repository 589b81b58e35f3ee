// Predicts how a text is split into tokens: as byte-pair encoding writes it (Gage 1994; Sennrich et
// al. 2016), whose merges vocabularies list in the order in which they were learned. So neighbours
// are merged to the token of the lowest id first, and no table of merges is needed. Tokenizers that
// split texts otherwise mostly agree.
//
// Immutable once built, then thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"

namespace sluice {

class TokenSpeller {
 public:
  TokenSpeller() = default;
  // `bytes` by id, borrowed; those without bytes are never used.
  explicit TokenSpeller(absl::Span<const std::string> bytes);

  // The tokens of a text that begins behind another token; none where a byte of it has no token of
  // its own. Takes time quadratic in its length: texts are short.
  std::vector<int32_t> Spell(std::string_view text) const;

  size_t memory() const { return ids_.capacity() * (sizeof(std::string_view) + sizeof(int32_t)); }

 private:
  absl::flat_hash_map<std::string_view, int32_t> ids_;
};

}  // namespace sluice
