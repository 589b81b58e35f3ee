#include "services/tokenizer/models/bpe_merger.h"

#include <algorithm>

namespace sluice {
namespace {

// Up to here scanning is faster: it touches little memory.
constexpr size_t kMaxScanned = 48;

}  // namespace

void BpeMerger::Merge(const MergeTable& table, std::vector<BpeSymbol>* symbols,
                      ModelScratch* scratch) {
  if (symbols->size() < 2) return;
  if (symbols->size() <= kMaxScanned) {
    MergeByScanning(table, symbols);
  } else {
    MergeByQueue(table, symbols, scratch);
  }
}

void BpeMerger::MergeByScanning(const MergeTable& table, std::vector<BpeSymbol>* symbols) {
  std::vector<BpeSymbol>& word = *symbols;
  pairs_.clear();
  for (size_t i = 0; i + 1 < word.size(); ++i)
    pairs_.push_back(table.Get(word[i].id, word[i + 1].id));
  const auto goes_first = [](const auto& a, const auto& b) { return a.rank < b.rank; };
  while (!pairs_.empty()) {
    const auto first = std::min_element(pairs_.begin(), pairs_.end(), goes_first);
    if (first->rank == MergeRule::kNoRank) return;
    const size_t at = first - pairs_.begin();
    word[at] = {first->result, word[at].num_bytes + word[at + 1].num_bytes};
    word.erase(word.begin() + at + 1);
    pairs_.erase(first);
    if (at > 0) pairs_[at - 1] = table.Get(word[at - 1].id, word[at].id);
    if (at < pairs_.size()) pairs_[at] = table.Get(word[at].id, word[at + 1].id);
  }
}

void BpeMerger::MergeByQueue(const MergeTable& table, std::vector<BpeSymbol>* symbols,
                             ModelScratch* scratch) {
  std::vector<BpeSymbol>& word = *symbols;
  const auto passes = [scratch] { return scratch == nullptr || scratch->Pass(1); };
  Link(table, word, scratch);
  while (!queue_.empty()) {
    if (!passes()) {
      queue_ = RankQueue();  // it must be empty before the next word
      return;
    }
    const RankQueue::Place first = queue_.Pop();
    if (word[first.at].id == kNoToken) continue;  // merged away
    const uint32_t right = links_[first.at].next;
    if (right == kNone) continue;
    // The pair may have changed since it was offered.
    const MergeRule& merge = table.Get(word[first.at].id, word[right].id);
    if (merge.rank != first.rank) continue;
    word[first.at] = {merge.result, word[first.at].num_bytes + word[right].num_bytes};
    word[right].id = kNoToken;
    const uint32_t next = links_[first.at].next = links_[right].next;
    if (next != kNone) links_[next].previous = first.at;
    if (links_[first.at].previous != kNone) Offer(table, word, links_[first.at].previous);
    if (next != kNone) Offer(table, word, first.at);
  }
  std::erase_if(word, [](const BpeSymbol& symbol) { return symbol.id == kNoToken; });
}

void BpeMerger::Link(const MergeTable& table, absl::Span<const BpeSymbol> symbols,
                     ModelScratch* scratch) {
  const auto size = static_cast<uint32_t>(symbols.size());
  links_.resize(size);
  queue_.Prepare(table.rank_limit());
  for (uint32_t i = 0; i < size; ++i)
    links_[i] = {i > 0 ? i - 1 : kNone, i + 1 < size ? i + 1 : kNone};
  for (uint32_t i = 0; i + 1 < size; ++i) {
    if (scratch != nullptr && !scratch->Pass(1)) return;
    Offer(table, symbols, i);
  }
}

void BpeMerger::Offer(const MergeTable& table, absl::Span<const BpeSymbol> symbols, uint32_t left) {
  const MergeRule& merge = table.Get(symbols[left].id, symbols[links_[left].next].id);
  if (merge.rank != MergeRule::kNoRank) queue_.Push({merge.rank, left});
}

}  // namespace sluice
