// The merges of a byte-pair encoding: which two neighbouring tokens become one, and which pair goes
// first. Immutable once built, then thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/numeric/bits.h"
#include "services/tokenizer/text/token.h"

namespace sluice {

struct MergeRule {
  uint32_t rank = kNoRank;  // lower goes first
  TokenId result = kNoToken;
  static constexpr uint32_t kNoRank = UINT32_MAX;
};

class MergeTable {
 public:
  explicit MergeTable(size_t num_merges)
      : slots_(absl::bit_ceil(num_merges + num_merges / 3 + 2)),
        shift_(64 - absl::countr_zero(slots_.size())) {}

  // Replaces an earlier merge of the same pair. REQUIRES: at most num_merges different pairs; ids
  // are not negative, merge.rank is not kNoRank.
  void Add(TokenId left, TokenId right, MergeRule merge) {
    Slot& slot = slots_[Find(Key(left, right))];
    slot = {Key(left, right), merge};
    rank_limit_ = std::max(rank_limit_, merge.rank + 1);
  }

  // One more than the largest rank.
  uint32_t rank_limit() const { return rank_limit_; }

  // Calls `visit` with left, right and rule of each merge, in no particular order.
  template <typename Visit>
  void ForEach(Visit visit) const {
    for (const Slot& slot : slots_) {
      if (slot.key == kEmpty) continue;
      visit(static_cast<TokenId>(slot.key >> 32), static_cast<TokenId>(slot.key & UINT32_MAX),
            slot.merge);
    }
  }

  // rank is kNoRank where the two do not merge.
  const MergeRule& Get(TokenId left, TokenId right) const {
    return slots_[Find(Key(left, right))].merge;
  }

 private:
  static constexpr uint64_t kEmpty = UINT64_MAX;  // no pair of ids
  struct Slot {
    uint64_t key = kEmpty;
    MergeRule merge;
  };

  static uint64_t Key(TokenId left, TokenId right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  }

  // The slot that holds `key`, or the empty one where it belongs (Fibonacci hashing).
  size_t Find(uint64_t key) const {
    const size_t mask = slots_.size() - 1;
    size_t at = (key ^ key >> 29) * 0x9E3779B97F4A7C15u >> shift_;
    while (slots_[at].key != key && slots_[at].key != kEmpty) at = (at + 1) & mask;
    return at;
  }

  std::vector<Slot> slots_;  // a power of two, at most three quarters full
  int shift_;
  uint32_t rank_limit_ = 0;
};

}  // namespace sluice
