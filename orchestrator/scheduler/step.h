// What a step is made of: the plan that goes to the stages, and what its results mean for the
// sequences in it. Plain values; a step refers to nothing else and may outlive the scheduler.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "orchestrator/kv_cache/types.h"
#include "orchestrator/scheduler/adapter_slots.h"
#include "orchestrator/scheduler/sequence.h"

namespace sluice {

// Steps count from 1, in the order in which every stage executes them. Never reused, not even
// after Scheduler::Reset.
using StepId = uint64_t;

enum class RowKind {
  kSample,  // choose the token that follows
  kScore,   // the log-probability of a known token that follows
  kPool,    // part of the embedding of the sequence's prompt
};

// An output row that the sampler computes.
struct Row {
  int32_t offset =
      0;  // within the segment; the token in question is at first_position + offset + 1
  RowKind kind = RowKind::kSample;
  TokenId target = 0;  // kScore: the token to score
};

// Most segments have one token and one row: a step of many is made without allocating for each.
using Tokens = absl::InlinedVector<TokenId, 2>;
using Rows = absl::InlinedVector<Row, 1>;

// A token that is not known yet: what a row of an earlier step will have chosen.
struct ChosenBy {
  StepId step = 0;
  int32_t row = 0;  // of all rows of the step

  friend bool operator==(const ChosenBy&, const ChosenBy&) = default;
};

// The run of positions [first_position, first_position + tokens.size()) of one sequence. The keys
// and values of all earlier positions are in the cache by the time a stage executes the step,
// computed for sequences of a length like sequence_length (SchedulerOptions::rope_length_class).
struct Segment {
  SequenceId sequence = 0;
  int32_t first_position = 0;
  Tokens tokens;  // [T], at least one
  // Set: the segment's one token is that one, and `tokens` has a 0 in its place.
  std::optional<ChosenBy> chosen_by;
  // The last of the tokens that are drafts: tokens that the sequence does not have. Then the
  // segment has a token before them and a kSample row for it and for each of them; a row counts
  // where those before it choose what was drafted.
  int32_t num_drafts = 0;
  // Tokens the sequence has, those still to compute, those that steps in flight choose and drafts
  // included.
  int32_t sequence_length = 0;
  int32_t second_type_from = kNoSecondType;  // SequenceSpec's
  int32_t source_positions = 0;              // SequenceSpec's
  int32_t adapter_slot = -1;                 // of its adapter; -1: it has none
  // Its block table from first_block on; the whole table covers at least [0, first_position + T).
  // The blocks before first_block are those that earlier steps have sent; so are all where this is
  // empty.
  int32_t first_block = 0;
  std::vector<BlockId> blocks;
  // Of models with states, the slots of its positions: KvCache::StatesOf.
  std::vector<StateSlot> state_slots;
  Rows rows;  // by offset; empty for a chunk inside a prompt
};

// One pass through the pipeline. A sequence has at most one segment in it.
struct Step {
  StepId id = 0;
  // What is in adapters' slots from this step on; the others stay as they are.
  std::vector<AdapterChange> adapters;
  // Sequences whose block tables have ended. Applied before the segments, which may begin new ones.
  std::vector<SequenceId> ended;
  // Sequences that lost their blocks to others since the step before.
  std::vector<SequenceId> preempted;
  // Made in this order before the segments are computed: the source of one may be the destination
  // of one before it.
  std::vector<BlockCopy> copies;
  // Likewise; the slots of blocks that are copied.
  std::vector<StateCopy> state_copies;
  std::vector<Segment> segments;  // at least one
  // No sequence was alive at some time since the step before, or that one was lost.
  bool after_idle = false;

  int32_t num_tokens() const;  // over all segments
  int32_t num_rows() const;    // over all segments; may be 0
};

// A result row that counted. Rows of sequences that ended while in flight, and those behind a wrong
// draft, are not among them.
struct AcceptedRow {
  SequenceId sequence = 0;
  RowKind kind = RowKind::kSample;
  int32_t position = 0;  // of `token` in the sequence, prompt included
  TokenId token = 0;     // chosen, or scored
  int32_t row = 0;       // index in the results given to Commit
};

struct StepOutcome {
  std::vector<AcceptedRow> rows;           // in row order
  std::vector<FinishedSequence> finished;  // sequences that this step's tokens ended
  std::vector<SequenceId> deferred;        // sequences that are in no step until Return
};

}  // namespace sluice
