// The KV cache as bookkeeping: which blocks hold the keys and values of which sequence's positions.
// Position p of a sequence lives in slot p % block_size of block BlockTable(sequence)[p /
// block_size]. Shards obey these tables; nothing here touches memory or arithmetic.
//
// Sharing is by whole blocks and blocks are never written through two tables: a sequence that
// starts with another's prefix recomputes what its last shared block does not cover. Those
// positions come out with the same bits, so the shards need no copy operation.
//
// The cache knows which slots are reserved, not which are written; the caller shares only what has
// been computed. A released block may be handed out at once, even while a step that writes it is
// under way: every stage executes steps in the order they were planned, so that the old writes come
// before the new owner's.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "orchestrator/kv_cache/block_pool.h"
#include "orchestrator/kv_cache/types.h"

namespace sluice {

struct KvCacheOptions {
  int32_t num_blocks = 0;   // at least 1
  int32_t block_size = 16;  // positions in a block, at least 1
};

// OK, or INVALID_ARGUMENT naming the field and its value.
absl::Status Validate(const KvCacheOptions& options);

struct KvCacheStatistics {
  int32_t block_size = 0;
  int32_t total_blocks = 0;
  int32_t used_blocks = 0;    // each counted once, however many tables name it
  int32_t free_blocks = 0;    // total - used
  int32_t shared_blocks = 0;  // those of used_blocks that several tables name
  int32_t num_sequences = 0;  // sequences that hold blocks
};

class KvCache {
 public:
  // REQUIRES: Validate(options).ok().
  explicit KvCache(const KvCacheOptions& options);

  // Makes slots for positions [0, num_positions) of `sequence`, keeping those it has; never
  // shrinks. All or nothing: RESOURCE_EXHAUSTED, with nothing changed, when the pool lacks blocks.
  absl::Status Reserve(SequenceId sequence, int32_t num_positions);

  // Gives back every block of `sequence`; nothing happens when it holds none.
  void Release(SequenceId sequence);

  // Lets `to` start with those blocks of `from` that lie wholly below position `num_positions`.
  // Returns the number of positions shared, a multiple of the block size, 0 when `from` holds
  // nothing. Never lacks blocks. REQUIRES: `to` holds no blocks; `from` has computed them.
  int32_t SharePrefix(SequenceId from, SequenceId to, int32_t num_positions);

  // The blocks of `sequence` in position order, empty when it holds none. Valid until the next
  // change to that sequence or the next new sequence.
  absl::Span<const BlockId> BlockTable(SequenceId sequence) const;

  // Blocks that would become free if all of `sequences` (no duplicates) were released together.
  int32_t BlocksFreedBy(absl::Span<const SequenceId> sequences) const;

  // Blocks that hold `num_positions` >= 0 positions.
  int32_t BlocksFor(int32_t num_positions) const;

  int32_t block_size() const { return options_.block_size; }
  int32_t num_free_blocks() const { return pool_.num_free(); }
  int32_t num_total_blocks() const { return pool_.num_total(); }
  KvCacheStatistics statistics() const;

  // OK, or INTERNAL describing the first disagreement: within the pool, a table with a block that
  // is free or twice in it, or a reference count that is not the number of tables with the block.
  absl::Status CheckIntegrity() const;

 private:
  KvCacheOptions options_;
  BlockPool pool_;
  absl::flat_hash_map<SequenceId, std::vector<BlockId>> tables_;
};

}  // namespace sluice
