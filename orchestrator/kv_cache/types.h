// Names of the things that the KV cache's bookkeeping counts.
#pragma once

#include <cstdint>

namespace sluice {

// A block of the pool, in [0, num_blocks). It means the same slot on every shard of a replica.
using BlockId = int32_t;

// One token stream. Chosen by the caller, unique among the sequences that are alive.
using SequenceId = uint64_t;

// An entry of the vocabulary.
using TokenId = int32_t;

// The keys and values of one block are to be those of another as well.
struct BlockCopy {
  BlockId source = 0;
  BlockId destination = 0;

  friend bool operator==(const BlockCopy&, const BlockCopy&) = default;
};

}  // namespace sluice
