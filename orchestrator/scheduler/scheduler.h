// Decides what each step computes: continuous batching with chunked prefill over a paged KV cache.
// A pure state machine: Plan gives a step, Commit takes its end; no clock, thread or I/O. The same
// calls give the same steps.
//
// A sequence is waiting (holds no blocks) or running (holds blocks), and is part of at most one
// step in flight. Whatever throws it back to waiting (preemption, Reset, a length from which on its
// keys are others) keeps its tokens; its positions are computed again. README.md states the policy
// and why every sequence that Add accepts can finish.
//
// Blocks of a sequence that ends or is thrown back are free at once, even while it is in flight.
// That is safe because every stage executes steps in the order of their ids: an abandoned step's
// writes come before those of the blocks' next owner.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/node_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "orchestrator/kv_cache/kv_cache.h"
#include "orchestrator/scheduler/sequence.h"
#include "orchestrator/scheduler/sequence_state.h"
#include "orchestrator/scheduler/step.h"

namespace sluice {

struct SchedulerOptions {
  int32_t max_tokens_per_step = 512;    // over all segments; prompts longer than it go in chunks
  int32_t max_sequences_per_step = 64;  // segments in a step
  int32_t max_queued_sequences = 1024;  // waiting ones beyond which Add refuses
  int32_t max_positions = 0;            // the model's context: prompt and new tokens together
  // As many as the pipeline has stages keeps all of them busy; decodes are split evenly over them.
  int32_t max_inflight_steps = 1;
  // For models whose keys depend on how long their sequence is: the longest sequence whose keys are
  // like those of one of `length` tokens. Two lengths for which it differs have no use for each
  // other's keys. Empty: all lengths are alike.
  std::function<int32_t(int32_t length)> longest_like;
};

// OK, or INVALID_ARGUMENT naming the field and its value; every field is at least 1.
absl::Status Validate(const SchedulerOptions& options);

struct SchedulerStatistics {
  int32_t waiting_sequences = 0;
  int32_t running_sequences = 0;
  int32_t inflight_steps = 0;
  int64_t waiting_positions = 0;  // known tokens of waiting sequences, all still to compute
  int64_t running_positions = 0;  // known tokens of running sequences, computed or not
  KvCacheStatistics kv_cache;
};

class Scheduler {
 public:
  // REQUIRES: both options are valid.
  Scheduler(const SchedulerOptions& options, const KvCacheOptions& kv_cache_options);

  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // Puts a sequence in line. Nothing has changed unless OK.
  //   INVALID_ARGUMENT   the spec breaks a rule of SequenceSpec, exceeds max_positions or what the
  //                      whole pool holds, is AlreadyFinished, or names in prompt_of a sequence
  //                      whose prompt is another.
  //   ALREADY_EXISTS     a sequence with this id is alive.
  //   RESOURCE_EXHAUSTED the queue is full; try again later.
  absl::Status Add(SequenceSpec spec);

  // The next step to execute, or nothing: max_inflight_steps are under way, or no sequence can go
  // on before one of them ends. Worth calling again after any other call that changes something.
  std::optional<Step> Plan();

  // Applies the results of the oldest step in flight. `tokens` has one entry per row of the step,
  // in the order of its segments and their rows: the token chosen, anything for a kScore row.
  // Nothing has changed unless OK.
  //   NOT_FOUND           the step is not in flight: never planned, over, or forgotten by Reset.
  //   FAILED_PRECONDITION an older step is still in flight.
  //   INVALID_ARGUMENT    not one token per row.
  absl::StatusOr<StepOutcome> Commit(StepId step, absl::Span<const TokenId> tokens);

  // Ends a sequence from outside, in flight or not. The rows it still has in flight are dropped.
  // NOT_FOUND when no such sequence is alive.
  absl::StatusOr<FinishedSequence> Finish(SequenceId sequence, FinishReason reason);

  // The replica was lost and its KV cache with it: forgets the steps in flight and lets every
  // running sequence wait again in its old place. Does not count as preemption.
  void Reset();

  // The steps in flight were lost and the replica's KV cache was not: forgets the steps. Sequences
  // keep their blocks; what a lost step was to compute is computed again into the same slots.
  void AbandonSteps();

  // What a living sequence has used; NOT_FOUND when it is not alive.
  absl::StatusOr<SequenceUsage> Usage(SequenceId sequence) const;

  SchedulerStatistics statistics() const;
  const SchedulerOptions& options() const { return options_; }
  const KvCache& kv_cache() const { return kv_cache_; }

  // OK, or INTERNAL describing the first disagreement between sequences, queues, steps in flight
  // and blocks. O(everything): for tests.
  absl::Status CheckIntegrity() const;

 private:
  // Line order: the first key goes first.
  using Line = absl::btree_map<Rank, SequenceState*>;

  struct PlannedSegment {
    SequenceId sequence = 0;
    int32_t first_position = 0;
    int32_t num_positions = 0;
    std::vector<Row> rows;
  };
  struct PlannedStep {
    StepId id = 0;
    int32_t num_rows = 0;
    std::vector<PlannedSegment> segments;
  };
  struct Budget {
    int32_t tokens = 0;
    int32_t segments = 0;
  };

  // Plan, in its order (plan.cc).
  void AdmitUrgent();
  void PlanDecodes(Step& step, Budget& budget);
  void PlanPrefills(Step& step, Budget& budget);
  void AppendSegment(SequenceState& sequence, int32_t num_positions, Step& step, Budget& budget);
  static PlannedStep Remember(const Step& step);

  // Who holds blocks (plan.cc).
  bool Admit(SequenceState& sequence);
  bool HeldBack(const SequenceState& sequence) const;
  const SequenceState* SharesWith(const SequenceState& sequence) const;
  bool MakeRoom(int32_t num_blocks, int32_t num_places, Rank below);
  int64_t MaxRunning() const;
  bool AreAlike(int32_t length, int32_t other_length) const;
  void ThrowBack(SequenceState& sequence);
  FinishedSequence End(SequenceState& sequence, FinishReason reason);

  void CommitSegment(SequenceState& sequence, const PlannedSegment& segment,
                     absl::Span<const TokenId> tokens, int32_t first_row, StepOutcome& outcome);

  absl::Status CheckSpec(const SequenceSpec& spec) const;
  absl::Status CheckSize(const SequenceSpec& spec) const;
  absl::Status CheckStepsInFlight() const;

  std::deque<PlannedStep>::iterator FindInFlight(StepId step);
  absl::Status NotInFlight(StepId step) const;
  SequenceState* Find(SequenceId id);
  const SequenceState* Find(SequenceId id) const;

  const SchedulerOptions options_;
  KvCache kv_cache_;
  absl::node_hash_map<SequenceId, SequenceState> sequences_;  // owns; the lines borrow
  Line waiting_;
  Line running_;
  std::deque<PlannedStep> in_flight_;  // oldest first
  StepId last_step_ = 0;
  uint64_t num_added_ = 0;
};

}  // namespace sluice
