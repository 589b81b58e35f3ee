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

// A slot for the state of recurrent layers, in [0, num_state_slots), on every shard of a replica.
using StateSlot = int32_t;

// The state in one slot is to be that in another as well.
struct StateCopy {
  StateSlot source = 0;
  StateSlot destination = 0;

  friend bool operator==(const StateCopy&, const StateCopy&) = default;
};

}  // namespace sluice
