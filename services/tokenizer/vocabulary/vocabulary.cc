#include "services/tokenizer/vocabulary/vocabulary.h"

#include "absl/hash/hash.h"
#include "absl/numeric/bits.h"

namespace sluice {

void Vocabulary::Reserve(size_t num_tokens, size_t num_bytes) {
  bytes_.reserve(num_bytes);
  by_id_.reserve(num_tokens);
  Rehash(absl::bit_ceil(2 * num_tokens + 1));
}

Vocabulary::AddResult Vocabulary::Add(std::string_view text, TokenId id) {
  if (2 * (size_ + 1) > slots_.size()) Rehash(absl::bit_ceil(4 * (size_ + 1)));
  const size_t slot = Slot(text);
  if (slots_[slot] != kNoToken) return AddResult::kTextExists;
  if (Has(id)) return AddResult::kIdExists;
  if (static_cast<size_t>(id) >= by_id_.size()) by_id_.resize(id + 1);
  by_id_[id] = {static_cast<uint32_t>(bytes_.size()), static_cast<uint32_t>(text.size())};
  bytes_ += text;
  slots_[slot] = id;
  ++size_;
  return AddResult::kAdded;
}

TokenId Vocabulary::Find(std::string_view text) const {
  return slots_.empty() ? kNoToken : slots_[Slot(text)];
}

size_t Vocabulary::Slot(std::string_view text) const {
  const size_t mask = slots_.size() - 1;
  size_t slot = absl::HashOf(text) & mask;
  while (slots_[slot] != kNoToken && Text(slots_[slot]) != text) slot = (slot + 1) & mask;
  return slot;
}

void Vocabulary::Rehash(size_t num_slots) {
  if (num_slots <= slots_.size()) return;
  slots_.assign(num_slots, kNoToken);
  for (TokenId id = 0; id < id_limit(); ++id) {
    if (Has(id)) slots_[Slot(Text(id))] = id;
  }
}

}  // namespace sluice
