#include "orchestrator/drafts/ngram_index.h"

#include <algorithm>

namespace sluice {
namespace {

constexpr int32_t kFewest = 256;

uint32_t HashOf(TokenId first, TokenId second) {
  const uint64_t pair =
      (static_cast<uint64_t>(static_cast<uint32_t>(first)) << 32) | static_cast<uint32_t>(second);
  return static_cast<uint32_t>((pair * 0x9e3779b97f4a7c15u) >> 32);
}

uint32_t HashBefore(absl::Span<const TokenId> text, int32_t next) {
  return HashOf(text[next - 2], text[next - 1]);
}

// The tokens that `a` and `b` have in common at their ends.
int32_t CommonEnd(absl::Span<const TokenId> a, absl::Span<const TokenId> b) {
  const auto most = std::min<size_t>({a.size(), b.size(), NgramIndex::kLongest});
  size_t length = 0;
  while (length < most && a[a.size() - 1 - length] == b[b.size() - 1 - length]) ++length;
  return static_cast<int32_t>(length);
}

}  // namespace

void NgramIndex::MakeRoom(absl::Span<const TokenId> text, int32_t size) {
  const auto have = static_cast<int32_t>(heads_.size());
  if (have == kWindow || size <= have) return;
  int32_t wanted = std::max(have, kFewest);
  while (wanted < size && wanted < kWindow) wanted *= 2;
  heads_.assign(wanted, kNone);
  before_.assign(wanted, kNone);
  for (int32_t next = std::max(2, num_learned_ - have); next < num_learned_; ++next) {
    Insert(text, next);
  }
}

void NgramIndex::Insert(absl::Span<const TokenId> text, int32_t next) {
  int32_t& head = heads_[HashBefore(text, next) & (heads_.size() - 1)];
  before_[static_cast<size_t>(next) & (before_.size() - 1)] = head;
  head = next;
}

void NgramIndex::Learn(absl::Span<const TokenId> text) {
  const auto size = static_cast<int32_t>(text.size());
  const int32_t oldest = std::max(num_learned_, size - kWindow);
  const int32_t end = std::min(size, oldest + kMostAtOnce);
  if (end <= oldest) return;
  MakeRoom(text, std::min(end, kWindow));
  for (num_learned_ = oldest; num_learned_ < end; ++num_learned_) Insert(text, num_learned_);
}

NgramIndex::Match NgramIndex::Find(absl::Span<const TokenId> text, absl::Span<const TokenId> suffix,
                                   int32_t least) const {
  Match best;
  if (suffix.size() < 2 || heads_.empty()) return best;
  const uint32_t hash = HashBefore(suffix, static_cast<int32_t>(suffix.size()));
  const int32_t oldest = num_learned_ - static_cast<int32_t>(before_.size());
  int32_t next = heads_[hash & (heads_.size() - 1)];
  for (int32_t i = 0; i < kMostCandidates && next != kNone && next >= oldest; ++i) {
    const int32_t length = CommonEnd(text.first(next), suffix);
    if (length >= least && length > best.length) best = {.next = next, .length = length};
    if (best.length == kLongest) break;
    const int32_t before = before_[static_cast<size_t>(next) & (before_.size() - 1)];
    if (before >= next) break;  // overwritten since
    next = before;
  }
  return best;
}

}  // namespace sluice
