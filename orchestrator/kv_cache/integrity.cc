// What CheckIntegrity of the KV cache proves.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "orchestrator/kv_cache/kv_cache.h"

namespace sluice {

absl::Status KvCache::CheckTable(SequenceId sequence, const Table& table) const {
  const auto broken = [sequence](auto... what) {
    return absl::InternalError(absl::StrCat("the table of sequence ", sequence, " ", what...));
  };
  std::vector<BlockId> sorted = table.blocks;
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) {
    return broken("has a block twice");
  }
  const auto num_blocks = static_cast<int32_t>(table.blocks.size());
  const auto tail = static_cast<int32_t>(table.tail.size());
  if (table.num_known > num_blocks || (table.root == 0 && table.num_known > 0) ||
      (tail > 0 && table.num_known >= num_blocks) || tail >= options_.block_size) {
    return broken("has ", num_blocks, " blocks, ", table.num_known, " of them known, and ", tail,
                  " positions after them");
  }
  if (table.num_told > num_blocks || (table.num_told > 0 && !table.told)) {
    return broken("has ", num_blocks, " blocks and has told ", table.num_told);
  }
  if (table.own >= num_blocks ||
      (table.own >= 0 && (index_.Contains(table.blocks[table.own]) ||
                          pool_.references(table.blocks[table.own]) != 1))) {
    return broken("takes its block at ", table.own, " for its own");
  }
  PrefixIndex::Place parent = table.root;
  for (int32_t i = 0; i < table.num_known; ++i) {
    const BlockId block = table.blocks[i];
    if (!index_.Contains(block) || index_.ParentOf(block) != parent) {
      return broken("has block ", block, " at ", i, ", which is known otherwise");
    }
    parent = index_.PlaceOf(block);
  }
  return absl::OkStatus();
}

absl::Status KvCache::CheckIntegrity() const {
  if (absl::Status status = pool_.CheckIntegrity(); !status.ok()) return status;
  if (absl::Status status = index_.CheckIntegrity(); !status.ok()) return status;
  absl::flat_hash_map<PrefixIndex::Place, int64_t> roots;
  for (const auto& [sequence, table] : tables_) {
    if (absl::Status status = CheckTable(sequence, table); !status.ok()) return status;
    if (table.root != 0) ++roots[table.root];
  }
  if (absl::Status status = index_.CheckRoots(std::move(roots)); !status.ok()) return status;
  if (absl::Status status = CheckReferences(); !status.ok()) return status;
  if (absl::Status status = CheckKept(); !status.ok()) return status;
  return CheckSlots();
}

// Every block is free, cached, or accounted for by the tables that have it.
absl::Status KvCache::CheckReferences() const {
  std::vector<int32_t> named(pool_.num_total(), 0);
  for (const auto& [sequence, table] : tables_) {
    for (const BlockId block : table.blocks) ++named[block];
  }
  int32_t num_shared = 0;
  for (BlockId block = 0; block < pool_.num_total(); ++block) {
    const bool known = index_.Contains(block);
    if (named[block] + (known ? 1 : 0) != pool_.references(block)) {
      return absl::InternalError(absl::StrCat(
          "block ", block, " has ", pool_.references(block), " references, is in ", named[block],
          " tables and is ", known ? "" : "not ", "known by its tokens"));
    }
    if (known && index_.IsIdle(block) != (named[block] == 0)) {
      return absl::InternalError(absl::StrCat("block ", block, " is in ", named[block],
                                              " tables and among the idle ones or not"));
    }
    num_shared += named[block] > 1;
  }
  if (num_shared == num_shared_) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat(num_shared, " blocks are shared; counted as ", num_shared_));
}

// What spares looking things up, or is the same before and after every call.
absl::Status KvCache::CheckKept() const {
  for (const auto& [place, sequence] : tails_) {
    const auto it = tables_.find(sequence);
    if (it == tables_.end() || EndOfKnown(it->second) != place) {
      return absl::InternalError(
          absl::StrCat("sequence ", sequence, " offers a tail where it has none"));
    }
  }
  if (found_ != nullptr) {
    const auto it = tables_.find(found_for_);
    if (it == tables_.end() || &it->second != found_) {
      return absl::InternalError(
          absl::StrCat("the table that was found last is not that of sequence ", found_for_));
    }
  }
  for (BlockId block = 0; block < std::ssize(given_back_); ++block) {
    if (given_back_[block] == 0) continue;
    return absl::InternalError(
        absl::StrCat("block ", block, " counts as given back ", given_back_[block], " times"));
  }
  return absl::OkStatus();
}

absl::Status KvCache::CheckContents(SequenceId sequence, absl::Span<const TokenId> tokens) const {
  const auto it = tables_.find(sequence);
  if (it == tables_.end()) return absl::OkStatus();
  const Table& table = it->second;
  size_t checked = 0;
  const auto follow = [&](absl::Span<const TokenId> known) {
    const bool same =
        known.size() <= tokens.size() - checked && tokens.subspan(checked, known.size()) == known;
    if (same) checked += known.size();
    return same;
  };
  bool same = true;
  for (int32_t i = 0; same && i < table.num_known; ++i) {
    same = follow(index_.TokensOf(table.blocks[i]));
  }
  if (same && follow(table.tail)) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("the table of sequence ", sequence,
                                          " has other tokens than it from position ", checked,
                                          " on"));
}

}  // namespace sluice
