// Names of the things that the KV cache's bookkeeping counts.
#pragma once

#include <cstdint>

namespace sluice {

// A block of the pool, in [0, num_blocks). It means the same slot on every shard of a replica.
using BlockId = int32_t;

// One token stream. Chosen by the caller, unique among the sequences that are alive.
using SequenceId = uint64_t;

}  // namespace sluice
