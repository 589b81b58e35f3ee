// Validates a step against the limits of a shard. Pure functions.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/backend.h"

namespace sluice {

// The run of positions that one sequence contributes to a step. Segments follow one another in the
// rows of the step.
struct ShardSegment {
  int32_t first_position = 0;
  int32_t num_positions = 0;
  // Position p lives in slot p % block_size of block_table[p / block_size].
  absl::Span<const int32_t> block_table;
  // Positions that the sequence has in all, for models that turn them by its length: at least
  // first_position + num_positions, which 0 stands for. The keys of its earlier positions must
  // have been computed with a length that turns alike (RopeConfig::RopeLengthClass).
  int32_t sequence_length = 0;
  int32_t adapter_slot = -1;  // of the sequence's adapter; negative: it has none
  // Of encoder-decoders: positions of the sequence's source, which are its first ones, with those that
  // fill its last block (services/shard/text_passes.h); 0 in other models.
  int32_t source_positions = 0;
  // Of models with recurrent layers: StateSegment::slots.
  absl::Span<const int32_t> state_slots;

  int32_t length() const {
    return sequence_length == 0 ? first_position + num_positions : sequence_length;
  }
};

// What a shard accepts.
struct StepLimits {
  int64_t max_rows = 0;
  int64_t max_positions = 0;
  int block_size = 0;
  int num_blocks = 0;
  int num_state_slots = 0;  // 0: no layer has states, and slots are not looked at
};

// INVALID_ARGUMENT naming the segment, the value and what is accepted, where a segment is empty or
// goes past max_positions, a block table or the slots are too few or name one outside the pool, or the
// segments together don't have exactly `rows` rows, at most max_rows.
absl::Status CheckStep(absl::Span<const ShardSegment> segments, int64_t rows,
                       const StepLimits& limits);

// INVALID_ARGUMENT naming the copy and the block, where one is outside a pool of `num_blocks`.
absl::Status CheckCopies(absl::Span<const KvBlockCopy> copies, int num_blocks);
absl::Status CheckStateCopies(absl::Span<const KvBlockCopy> copies, int num_state_slots);

}  // namespace sluice
