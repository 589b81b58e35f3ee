#include "orchestrator/kv_cache/prefix_index.h"

#include <algorithm>
#include <bit>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "kernels/check.h"

namespace sluice {

PrefixIndex::PrefixIndex(int32_t num_blocks, int32_t block_size, KvRecorder* recorder)
    : block_size_(block_size),
      recorder_(recorder),
      nodes_(num_blocks),
      tokens_(static_cast<size_t>(num_blocks) * block_size),
      chains_(std::bit_ceil(4 * std::max<size_t>(num_blocks, 1)), kNone) {
  SLUICE_CHECK(num_blocks >= 0 && block_size >= 1);
}

PrefixIndex::Place PrefixIndex::AcquireRoot(const PrefixDomain& domain) {
  const auto [it, added] = roots_.try_emplace(domain);
  if (added) {
    it->second.place = ++last_place_;
    domains_.emplace(it->second.place, &it->first);
  }
  ++it->second.holders;
  return it->second.place;
}

std::optional<PrefixIndex::Place> PrefixIndex::RootOf(const PrefixDomain& domain) const {
  const auto it = roots_.find(domain);
  if (it == roots_.end()) return std::nullopt;
  return it->second.place;
}

void PrefixIndex::HoldRoot(Place root) { ++roots_.find(*domains_.at(root))->second.holders; }

void PrefixIndex::ReleaseRoot(Place root) {
  const auto domain = domains_.find(root);
  SLUICE_CHECK(domain != domains_.end());
  const auto it = roots_.find(*domain->second);
  if (--it->second.holders > 0) return;
  domains_.erase(domain);
  roots_.erase(it);
}

PrefixIndex::Key PrefixIndex::MakeKey(Place parent, absl::Span<const TokenId> tokens) {
  return {.parent = parent, .tokens = tokens, .hash = absl::HashOf(parent, tokens)};
}

absl::Span<const TokenId> PrefixIndex::TokensOf(BlockId block) const {
  return absl::MakeConstSpan(tokens_).subspan(static_cast<size_t>(block) * block_size_,
                                              block_size_);
}

std::optional<BlockId> PrefixIndex::Find(Place parent, absl::Span<const TokenId> tokens) const {
  SLUICE_CHECK(std::ssize(tokens) == block_size_);
  const BlockId found = FindNode(MakeKey(parent, tokens));
  return found == kNone ? std::nullopt : std::optional<BlockId>(found);
}

BlockId PrefixIndex::FindNode(const Key& key) const {
  BlockId block = chains_[key.hash & (chains_.size() - 1)];
  for (; block != kNone; block = nodes_[block].next) {
    const Node& node = nodes_[block];
    if (node.hash == key.hash && node.parent == key.parent && TokensOf(block) == key.tokens) break;
  }
  return block;
}

BlockId PrefixIndex::FindOrInsert(BlockId block, Place parent, absl::Span<const TokenId> tokens) {
  SLUICE_CHECK(std::ssize(tokens) == block_size_);
  const Key key = MakeKey(parent, tokens);
  if (const BlockId known = FindNode(key); known != kNone) return known;
  SLUICE_CHECK(!Contains(block));
  if (domains_.contains(parent)) HoldRoot(parent);
  std::copy(tokens.begin(), tokens.end(),
            tokens_.begin() + static_cast<ptrdiff_t>(block) * block_size_);
  BlockId& chain = ChainOf(key.hash);
  nodes_[block] = {.place = ++last_place_,
                   .parent = parent,
                   .hash = key.hash,
                   .next = std::exchange(chain, block)};
  ++num_nodes_;
  return block;
}

void PrefixIndex::Name(BlockId block, PrefixKey key, PrefixKey parent, int32_t index) {
  SLUICE_CHECK(Contains(block) && nodes_[block].key == 0);
  nodes_[block].key = key;
  if (recorder_ != nullptr) recorder_->OnStored(key, parent, index);
}

PrefixKey PrefixIndex::KeyOf(BlockId block) const {
  SLUICE_CHECK(Contains(block));
  return nodes_[block].key;
}

void PrefixIndex::Remove(BlockId block) {
  SLUICE_CHECK(Contains(block));
  if (recorder_ != nullptr && nodes_[block].key != 0) recorder_->OnRemoved(nodes_[block].key);
  if (nodes_[block].idle) Unlink(block);
  Unchain(block);
  const Place parent = nodes_[block].parent;
  nodes_[block] = {};
  if (domains_.contains(parent)) ReleaseRoot(parent);
}

void PrefixIndex::Unchain(BlockId block) {
  BlockId* link = &ChainOf(nodes_[block].hash);
  while (*link != block) link = &nodes_[*link].next;
  *link = nodes_[block].next;
  --num_nodes_;
}

PrefixIndex::Place PrefixIndex::PlaceOf(BlockId block) const {
  SLUICE_CHECK(Contains(block));
  return nodes_[block].place;
}

PrefixIndex::Place PrefixIndex::ParentOf(BlockId block) const {
  SLUICE_CHECK(Contains(block));
  return nodes_[block].parent;
}

void PrefixIndex::MakeIdle(BlockId block) {
  Node& node = nodes_[block];
  SLUICE_CHECK(Contains(block) && !node.idle);
  node.idle = true;
  node.before = newest_;
  (newest_ == kNone ? oldest_ : nodes_[newest_].after) = block;
  newest_ = block;
  ++num_idle_;
}

void PrefixIndex::MakeUsed(BlockId block) {
  SLUICE_CHECK(Contains(block) && nodes_[block].idle);
  Unlink(block);
}

void PrefixIndex::Unlink(BlockId block) {
  Node& node = nodes_[block];
  (node.before == kNone ? oldest_ : nodes_[node.before].after) = node.after;
  (node.after == kNone ? newest_ : nodes_[node.after].before) = node.before;
  node.before = node.after = kNone;
  node.idle = false;
  --num_idle_;
}

BlockId PrefixIndex::Evict() {
  SLUICE_CHECK(oldest_ != kNone);
  const BlockId block = oldest_;
  Remove(block);
  return block;
}

namespace {

absl::Status Broken(BlockId block, const char* what) {
  return absl::InternalError(absl::StrCat("prefix index: block ", block, " ", what));
}

}  // namespace

absl::Status PrefixIndex::CheckIntegrity() const {
  if (absl::Status status = CheckNodes(); !status.ok()) return status;
  return CheckIdleOnes();
}

absl::Status PrefixIndex::CheckNodes() const {
  int32_t num_nodes = 0;
  int32_t num_idle = 0;
  for (BlockId block = 0; block < std::ssize(nodes_); ++block) {
    const Node& node = nodes_[block];
    if (!Contains(block)) {
      if (node.idle) return Broken(block, "is idle and no node");
      continue;
    }
    ++num_nodes;
    num_idle += node.idle;
    if (node.place > last_place_ || node.parent >= node.place) {
      return Broken(block, "stands after a place that came later");
    }
    if (MakeKey(node.parent, TokensOf(block)).hash != node.hash ||
        Find(node.parent, TokensOf(block)) != block) {
      return Broken(block, "is not found by its tokens");
    }
  }
  if (num_nodes == num_nodes_ && num_idle == num_idle_) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("prefix index: ", num_nodes, " nodes, ", num_idle,
                                          " idle; counted as ", num_nodes_, " and ", num_idle_));
}

absl::Status PrefixIndex::CheckIdleOnes() const {
  int32_t num_left = num_idle_;
  BlockId before = kNone;
  for (BlockId block = oldest_; block != kNone; block = nodes_[block].after) {
    if (!nodes_[block].idle || nodes_[block].before != before || --num_left < 0) {
      return Broken(block, "stands wrongly in the list of idle ones");
    }
    before = block;
  }
  if (num_left != 0 || newest_ != before) return Broken(newest_, "does not end the idle ones");
  return absl::OkStatus();
}

absl::Status PrefixIndex::CheckRoots(absl::flat_hash_map<Place, int64_t> holders) const {
  for (BlockId block = 0; block < std::ssize(nodes_); ++block) {
    if (Contains(block) && domains_.contains(nodes_[block].parent)) ++holders[nodes_[block].parent];
  }
  for (const auto& [domain, root] : roots_) {
    const auto named = domains_.find(root.place);
    if (named == domains_.end() || named->second != &domain ||
        holders[root.place] != root.holders) {
      return absl::InternalError(absl::StrCat("prefix index: root ", root.place, " is held ",
                                              root.holders, " times; ", holders[root.place],
                                              " are known"));
    }
  }
  if (domains_.size() != roots_.size() || holders.size() != roots_.size()) {
    return absl::InternalError(absl::StrCat("prefix index: ", roots_.size(), " roots, ",
                                            domains_.size(), " named ones and ", holders.size(),
                                            " held ones"));
  }
  return absl::OkStatus();
}

}  // namespace sluice
