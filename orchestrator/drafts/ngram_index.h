// Where in a growing text the tokens that end another text came before. Hash chains over pairs of
// tokens, as in Deflate (RFC 1951, section 4): exact, since what a chain leads to is compared token
// by token, and bounded, since only the last kWindow tokens are known.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "orchestrator/kv_cache/types.h"

namespace sluice {

class NgramIndex {
 public:
  static constexpr int32_t kWindow = 1 << 15;
  // Of a text that is new, as much is taken up in one call; the rest with the next ones.
  static constexpr int32_t kMostAtOnce = 1 << 12;

  // What came after an earlier place.
  struct Match {
    int32_t next = 0;    // position in the text of the token that followed
    int32_t length = 0;  // tokens before it that are alike, counted up to kLongest; 0: none
  };
  static constexpr int32_t kLongest = 32;

  // The text is this: that of the last call with others behind it.
  void Learn(absl::Span<const TokenId> text);

  // The place in `text`, which is that last learned, after which a token follows and before which
  // stand most of the tokens that `suffix` ends with, at least `least` >= 2 of them; of those alike,
  // the latest. Looks at kMostCandidates places.
  Match Find(absl::Span<const TokenId> text, absl::Span<const TokenId> suffix, int32_t least) const;

  size_t memory() const { return (heads_.capacity() + before_.capacity()) * sizeof(int32_t); }

 private:
  static constexpr int32_t kMostCandidates = 16;
  static constexpr int32_t kNone = -1;

  void Insert(absl::Span<const TokenId> text, int32_t next);
  // For a text of `size` tokens: as many heads as there are tokens in the window.
  void MakeRoom(absl::Span<const TokenId> text, int32_t size);

  std::vector<int32_t> heads_;   // by hash of a pair, the last position behind one
  std::vector<int32_t> before_;  // by position modulo its size, the one before it in its chain
  int32_t num_learned_ = 2;      // positions below it are in chains, or too old
};

}  // namespace sluice
