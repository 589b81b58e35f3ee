// A fixed number of blocks with reference counts: which are free, and how many tables name the
// others. It knows ids only; the memory behind them is the shards'.
//
// Deterministic: the same calls give the same ids. The block released last is handed out first,
// so that a load that needs few blocks touches few of the shards' pages.
// Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "orchestrator/kv_cache/types.h"

namespace sluice {

class BlockPool {
 public:
  // REQUIRES: num_blocks >= 0. All blocks are free.
  explicit BlockPool(int32_t num_blocks);

  // A free block, from now on with one reference; nothing when none is free. O(1).
  std::optional<BlockId> Allocate();

  // One more reference to a block in use. REQUIRES: `block` has at least one.
  void AddReference(BlockId block);

  // One reference less; the last one frees the block. REQUIRES: `block` has at least one. O(1).
  void Release(BlockId block);

  // References to `block`; 0 means free. REQUIRES: `block` is in [0, num_total()).
  int32_t references(BlockId block) const;

  int32_t num_total() const { return static_cast<int32_t>(references_.size()); }
  int32_t num_free() const { return static_cast<int32_t>(free_.size()); }
  int32_t num_used() const { return num_total() - num_free(); }

  // OK, or INTERNAL naming the first block whose count and place in the free list disagree. O(B).
  absl::Status CheckIntegrity() const;

 private:
  friend class KvCacheSaboteur;  // of tests, which plant bugs to see them found

  std::vector<int32_t> references_;  // by block
  std::vector<BlockId> free_;        // a stack: the next block is at the back
};

}  // namespace sluice
