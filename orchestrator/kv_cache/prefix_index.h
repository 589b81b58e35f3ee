// Which block holds the keys and values of which tokens: a tree of full blocks, each the child of
// the block before it, found by a hash of its parent and its tokens.
//
// Safe against collisions: a node is found only where parent and tokens are equal, and a parent is
// named by a number that is never used again, so that a path from the root is right in every token.
// Roots belong to domains, which keep apart what may not be shared.
//
// A node is idle while no sequence uses its block. Idle nodes are kept in the order in which they
// became idle, so that the least recently used is evicted first. Who lets a path go from its last
// block to its first makes children idle before their parents; then eviction takes leaves.
//
// It knows ids and tokens only. Every operation takes time in the number of tokens it is given,
// none in the number of blocks: all memory is there from the beginning, and nothing is ever moved to
// make room or to tidy up. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/node_hash_map.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "orchestrator/kv_cache/kv_recorder.h"
#include "orchestrator/kv_cache/types.h"
#include "services/common/prefix_key.h"

namespace sluice {

// What keys and values depend on besides the tokens, and who may share them. Sequences of unlike
// domains never share a block that was found by its tokens.
struct PrefixDomain {
  std::string salt;         // the request's, to keep tenants apart
  std::string adapter;      // which adapter's weights computed them; empty: the model's alone
  int32_t length_like = 0;  // of models that turn keys by length: which lengths are like theirs

  friend bool operator==(const PrefixDomain&, const PrefixDomain&) = default;
  template <class H>
  friend H AbslHashValue(H hash, const PrefixDomain& domain) {
    return H::combine(std::move(hash), domain.salt, domain.adapter, domain.length_like);
  }
};

class PrefixIndex {
 public:
  // A place in the tree, after which blocks are looked up: a root or a node.
  using Place = uint64_t;

  // REQUIRES: num_blocks >= 0, block_size >= 1. Borrows `recorder`; null: nothing is recorded.
  PrefixIndex(int32_t num_blocks, int32_t block_size, KvRecorder* recorder = nullptr);

  PrefixIndex(const PrefixIndex&) = delete;
  PrefixIndex& operator=(const PrefixIndex&) = delete;
  PrefixIndex& operator=(PrefixIndex&&) = default;

  // The root of a domain, for as long as it is held: the matching ReleaseRoot, and the end of every
  // node under it, let it go.
  Place AcquireRoot(const PrefixDomain& domain);
  // That of a domain, while anything holds it.
  std::optional<Place> RootOf(const PrefixDomain& domain) const;
  // Once more. REQUIRES: it is held.
  void HoldRoot(Place root);
  void ReleaseRoot(Place root);

  // The block that follows `parent` with these tokens. REQUIRES: tokens.size() == block_size.
  std::optional<BlockId> Find(Place parent, absl::Span<const TokenId> tokens) const;

  // The block that follows `parent` with these tokens; where there is none, `block` becomes it, in
  // use. REQUIRES: tokens.size() == block_size, and `block` is no node unless it is that one.
  BlockId FindOrInsert(BlockId block, Place parent, absl::Span<const TokenId> tokens);

  // Gives a new node its key, and records it; `index` counts the nodes before it. Once for each node.
  // REQUIRES: Contains(block).
  void Name(BlockId block, PrefixKey key, PrefixKey parent, int32_t index);
  // 0 before Name. REQUIRES: Contains(block).
  PrefixKey KeyOf(BlockId block) const;
  // REQUIRES: `root` is held.
  const PrefixDomain& DomainOf(Place root) const { return *domains_.at(root); }

  // `block` is a node no more. Nodes after it stay, out of reach, until they are evicted.
  // REQUIRES: it is a node.
  void Remove(BlockId block);

  bool Contains(BlockId block) const { return nodes_[block].place != 0; }
  // REQUIRES: Contains(block).
  Place PlaceOf(BlockId block) const;
  Place ParentOf(BlockId block) const;
  absl::Span<const TokenId> TokensOf(BlockId block) const;

  // REQUIRES: it is a node, and in use or idle respectively.
  void MakeIdle(BlockId block);
  void MakeUsed(BlockId block);

  // Removes the node that has been idle longest. REQUIRES: num_idle() > 0.
  BlockId Evict();

  bool IsIdle(BlockId block) const { return nodes_[block].idle; }
  int32_t num_nodes() const { return num_nodes_; }
  int32_t num_idle() const { return num_idle_; }

  // OK, or INTERNAL naming the first node that is not found by its tokens, stands after a place of
  // the future, or is missing in the list of idle ones. O(B).
  absl::Status CheckIntegrity() const;
  // OK, or INTERNAL naming a root that is not held as often as its nodes and `holders`, which are those
  // outside, say. O(B).
  absl::Status CheckRoots(absl::flat_hash_map<Place, int64_t> holders) const;

 private:
  friend class KvCacheSaboteur;  // of tests, which plant bugs to see them found

  static constexpr BlockId kNone = -1;

  struct Node {
    Place place = 0;  // its own; 0: the block is no node
    Place parent = 0;
    size_t hash = 0;
    PrefixKey key = 0;
    bool idle = false;
    BlockId before = kNone;  // in the list of idle nodes: became idle earlier
    BlockId after = kNone;
    BlockId next = kNone;  // in its chain
  };
  struct Root {
    Place place = 0;
    int64_t holders = 0;
  };
  // What is looked up.
  struct Key {
    Place parent;
    absl::Span<const TokenId> tokens;
    size_t hash;
  };
  static Key MakeKey(Place parent, absl::Span<const TokenId> tokens);
  // The node of that parent and those tokens, or kNone.
  BlockId FindNode(const Key& key) const;
  // Where the chain of all nodes with hashes like this one begins.
  BlockId& ChainOf(size_t hash) { return chains_[hash & (chains_.size() - 1)]; }
  void Unchain(BlockId block);
  void Unlink(BlockId block);
  absl::Status CheckNodes() const;
  absl::Status CheckIdleOnes() const;

  int32_t block_size_;           // never changes but by assignment of another index
  KvRecorder* recorder_;         // the same
  std::vector<Node> nodes_;      // by block
  std::vector<TokenId> tokens_;  // [num_blocks, block_size]
  // The first node of each chain; a power of two of them, four a block, so that most are empty.
  std::vector<BlockId> chains_;
  absl::node_hash_map<PrefixDomain, Root> roots_;
  absl::flat_hash_map<Place, const PrefixDomain*> domains_;  // by their root
  Place last_place_ = 0;
  BlockId oldest_ = kNone;  // idle
  BlockId newest_ = kNone;
  int32_t num_nodes_ = 0;
  int32_t num_idle_ = 0;
};

}  // namespace sluice
