// Decides what each step computes: continuous batching with chunked prefill over a paged KV cache.
// A pure state machine: Plan gives a step, Commit applies its results; no clock, thread or I/O. The
// same calls give the same steps.
//
// A sequence waits (it holds no blocks), runs (it holds blocks) or is paused. With steps_ahead it
// is planned before the tokens that steps in flight choose are known: a plan names such a token by
// its step and row, and Commit drops what turns out not to be wanted. With drafts a sequence is
// computed further than its tokens are known; Commit keeps the positions whose drafts were right,
// and the others are computed again. A sequence that loses its blocks (preemption, Reset, Pause, a
// length with other keys) keeps its tokens; its positions are computed again. An externally sampled
// sequence waits for its token between its steps, and meanwhile is preempted for whichever sequence
// needs its blocks.
//
// What other sequences have computed is not computed again: a sequence begins with the blocks that
// hold its first tokens, if the KV cache still knows them, or with those of the sequence it is
// forked off.
//
// Blocks of a sequence that ends or is preempted are free at once, even while it is in flight. That
// is safe because every stage executes steps in the order of their ids: an abandoned step's writes
// come before those of the blocks' next owner.
//
// This is a facade. Its parts, each with its own state: StateTable, AdmissionQueue, BlockBudget and
// StepBuilder, over the ledger StepsInFlight; SequenceProgress applies results. README.md explains
// them, the policy, and why every sequence that Add accepts can finish.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "orchestrator/kv_cache/kv_cache.h"
#include "orchestrator/scheduler/admission_queue.h"
#include "orchestrator/scheduler/block_budget.h"
#include "orchestrator/scheduler/draft_source.h"
#include "orchestrator/scheduler/scheduler_options.h"
#include "orchestrator/scheduler/sequence.h"
#include "orchestrator/scheduler/sequence_progress.h"
#include "orchestrator/scheduler/state_table.h"
#include "orchestrator/scheduler/step.h"
#include "orchestrator/scheduler/step_builder.h"
#include "orchestrator/scheduler/step_cost.h"
#include "orchestrator/scheduler/steps_in_flight.h"
#include "orchestrator/scheduler/tenants.h"

namespace sluice {

struct SchedulerStatistics {
  int32_t waiting_sequences = 0;
  int32_t running_sequences = 0;
  int32_t paused_sequences = 0;  // and externally sampled ones without blocks that await a token
  int32_t inflight_steps = 0;
  int32_t active_tenants = 0;     // with sequences that wait or run
  int64_t waiting_positions = 0;  // known tokens of waiting sequences, all still to compute
  KvCacheStatistics kv_cache;
  // Ever. A sequence is started when it first gets blocks.
  uint64_t started_sequences = 0;
  uint64_t preemptions = 0;
  uint64_t computed_positions = 0;  // without those of wrong drafts
  uint64_t drafted_tokens = 0;
  uint64_t accepted_drafts = 0;
  RecomputedPositions recomputed;
};

class Scheduler {
 public:
  // REQUIRES: both options are valid.
  Scheduler(const SchedulerOptions& options, const KvCacheOptions& kv_cache_options);

  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // ---- Sequences ----

  // Queues a sequence. Nothing has changed unless OK.
  //   INVALID_ARGUMENT   the spec breaks a rule of SequenceSpec, exceeds max_positions or what the
  //                      whole pool holds, is AlreadyFinished, or names in prompt_of a sequence
  //                      whose prompt is another.
  //   ALREADY_EXISTS     a sequence with this id is alive.
  //   RESOURCE_EXHAUSTED the queue is full, or the tenant's share of it; try again later.
  absl::Status Add(SequenceSpec spec);

  // Starts a second sequence from a position of `from`, sharing the blocks that are computed. It
  // runs at once where `from` does and there is a slot for it, and is served right after `from`.
  // Nothing has changed unless OK.
  //   NOT_FOUND         `from` is not alive.
  //   ALREADY_EXISTS    `to` is alive.
  //   INVALID_ARGUMENT  num_tokens is not between the prompt and all tokens, or the tokens and the
  //                     continuation end the sequence or exceed what its spec allows.
  absl::Status Fork(const ForkSpec& fork);

  // Appends the next token of an externally sampled sequence. Nothing has changed unless OK.
  //   NOT_FOUND            it is not alive.
  //   FAILED_PRECONDITION  no row of it has been committed since it got its last token.
  //   INVALID_ARGUMENT     the token ends it, as a stop token or the last one that it may have:
  //                        Finish does that.
  absl::Status Append(SequenceId sequence, TokenId token);

  // Ends a sequence, in flight or not. Its rows in flight are dropped. NOT_FOUND: it is not alive.
  absl::StatusOr<FinishedSequence> Finish(SequenceId sequence, FinishReason reason);

  // Keeps a sequence out of steps. It gives up its blocks like a preempted one, at once or when the
  // step that it is part of ends, and keeps its tokens. Does nothing to one that is not alive.
  void Pause(SequenceId sequence);
  // Queues a paused sequence again, in its old position.
  void Resume(SequenceId sequence);

  // Charges a tenant for processor time outside of steps (masks, compilation, tokenizing), as for the
  // tokens that steps compute in it, whether it has sequences or not.
  void BillTime(const std::string& tenant, double seconds);

  // ---- Steps ----

  // The next step to execute, or nothing: max_inflight_steps are in flight, or no sequence can go
  // on before one of them ends. Call again after any other call that changes something.
  std::optional<Step> Plan();

  // Applies the results of the oldest step in flight. `tokens` has one entry per row of the step,
  // in the order of its segments and their rows: the token chosen, anything for a kScore row.
  // `deferred` are the indexes, rising, of kSample rows that have no token yet because what they
  // depend on is not ready: their sequences keep their blocks and what was chosen before, and are
  // in no step until Return(). Nothing has changed unless OK.
  //   NOT_FOUND           the step is not in flight: never planned, over, or forgotten by Reset.
  //   FAILED_PRECONDITION an older step is still in flight.
  //   INVALID_ARGUMENT    not one token per row, or no such row in `deferred`.
  absl::StatusOr<StepOutcome> Commit(StepId step, absl::Span<const TokenId> tokens,
                                     absl::Span<const int32_t> deferred = {});

  // Lets a deferred sequence into steps again. Does nothing to others.
  void Return(SequenceId sequence);

  // Plans the sequences of this request alone from now on, or all again. The others keep their
  // positions in the queue and their blocks, and may be preempted.
  void PlanOnly(std::optional<RequestId> request) { admission_.ServeOnly(request); }

  // What steps cost, as measured lately.
  void SetStepCost(const StepCost& cost) { builder_.SetStepCost(cost); }

  // ---- Losses ----

  // The replica was lost and its KV cache with it: forgets the steps in flight and requeues every
  // running sequence in its old position. Does not count as preemption.
  void Reset();
  // The same, and the replica has so many blocks and slots for states from now on, both as
  // KvCacheOptions have them. Returns the sequences that cannot finish with as few blocks: Shorten or
  // Finish each of them.
  std::vector<SequenceId> ResetWithBlocks(int32_t num_blocks, int32_t num_state_slots = 0);
  // Limits a waiting or paused sequence to what the pool holds. False, with nothing changed, for
  // one that has as many tokens already or is not alive.
  bool Shorten(SequenceId sequence);

  // The steps in flight were lost and the replica's KV cache was not: forgets the steps. Sequences
  // keep their blocks; what a lost step was to compute is computed again into the same slots. Those
  // for which it was to copy a block begin again.
  void AbandonSteps();

  // ---- Reports ----

  // The tokens of a sequence: its prompt, then the generated ones that Commit has accepted or that
  // Append and Fork have added. The scheduler owns the only copy. Empty for a sequence that is not
  // alive. Valid until the next call that changes the scheduler.
  absl::Span<const TokenId> TokensOf(SequenceId sequence) const;

  // NOT_FOUND when it is not alive. O(blocks of the sequence).
  absl::StatusOr<SequenceReport> Report(SequenceId sequence) const;

  // How many waiting sequences are served before a new one of this tenant: an estimate, for the
  // lowest priority.
  double StartsAhead(const std::string& tenant) const { return admission_.StartsAhead(tenant); }

  // Positions that a new sequence would compute before it chooses a token, by what is cached now.
  int32_t NumToCompute(const SequenceSpec& spec) const { return budget_.NumToCompute(spec); }

  SchedulerStatistics statistics() const;
  const SchedulerOptions& options() const { return options_; }
  const KvCache& kv_cache() const { return kv_cache_; }

  // OK, or INTERNAL describing the first disagreement between sequences, queues, steps in flight
  // and blocks. O(everything): for tests, and for servers at leisure.
  absl::Status CheckIntegrity() const;

 private:
  static SequenceSpec SpecOf(const SequenceState& from, const ForkSpec& fork);
  absl::Status CheckSpec(const SequenceSpec& spec) const;
  absl::Status CheckSize(const SequenceSpec& spec) const;

  // Each part borrows those above it.
  const SchedulerOptions options_;
  KvCache kv_cache_;
  const std::unique_ptr<Tenants> own_tenants_;  // null where they are borrowed
  Tenants& tenants_;
  StateTable table_;
  StepsInFlight flights_;
  AdmissionQueue admission_;
  BlockBudget budget_;
  StepBuilder builder_;
  SequenceProgress progress_;
  bool was_idle_ = true;  // Step::after_idle
};

}  // namespace sluice
