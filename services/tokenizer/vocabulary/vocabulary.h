// Token texts by id and ids by token text, for the model's tokens and the added ones alike. All
// texts lie in one block of memory. Immutable once built, then thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "services/tokenizer/text/token.h"

namespace sluice {

class Vocabulary {
 public:
  // Ids lie in [0, kMaxIds): memory grows with the largest.
  static constexpr TokenId kMaxIds = 1 << 22;

  // Makes room, so that adding does not move things.
  void Reserve(size_t num_tokens, size_t num_bytes);

  enum class AddResult { kAdded, kTextExists, kIdExists };
  // REQUIRES: 0 <= id < kMaxIds.
  AddResult Add(std::string_view text, TokenId id);

  // kNoToken where there is none.
  TokenId Find(std::string_view text) const;

  bool Has(TokenId id) const {
    return id >= 0 && static_cast<size_t>(id) < by_id_.size() && by_id_[id].size != kAbsent;
  }

  // As the file spells it. Valid while the vocabulary is and nothing is added. REQUIRES: Has(id).
  std::string_view Text(TokenId id) const {
    return {bytes_.data() + by_id_[id].begin, by_id_[id].size};
  }

  // How many tokens there are.
  size_t size() const { return size_; }
  // One more than the largest id.
  TokenId id_limit() const { return static_cast<TokenId>(by_id_.size()); }

 private:
  static constexpr uint32_t kAbsent = UINT32_MAX;
  struct Place {
    uint32_t begin = 0;
    uint32_t size = kAbsent;
  };

  // The slot that holds `text`, or the empty one where it belongs.
  size_t Slot(std::string_view text) const;
  void Rehash(size_t num_slots);

  std::string bytes_;
  std::vector<Place> by_id_;
  std::vector<TokenId> slots_;  // open addressing; a power of two, at most half full
  size_t size_ = 0;
};

}  // namespace sluice
