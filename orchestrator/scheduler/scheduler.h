// Decides what each step computes: continuous batching with chunked prefill over a paged KV cache.
// A pure state machine: Plan gives a step, Commit takes its end; no clock, thread or I/O. The same
// calls give the same steps.
//
// A sequence is waiting (holds no blocks), running (holds blocks) or paused (stands in no line until
// it is resumed). With steps_ahead it is planned on before the tokens that steps in flight choose are
// known: a plan names such a token by its step and row, and what turns out not to be wanted is dropped
// by Commit. With drafts a sequence is computed further than its tokens are known; Commit keeps the
// positions whose drafts were right, and the others are written again. Whatever throws it back to
// waiting (preemption, Reset, a length from which on its keys are others) keeps its tokens; its
// positions are computed again. One whose tokens are chosen outside waits for them between its steps,
// and meanwhile gives way to whoever needs its blocks. README.md states the policy
// and why every sequence that Add accepts can finish.
//
// What others have computed is not computed again: a sequence begins with the blocks that hold its
// first tokens, if the KV cache still knows them, or with those of the sequence it is forked off.
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
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/node_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "orchestrator/kv_cache/kv_cache.h"
#include "orchestrator/scheduler/draft_source.h"
#include "orchestrator/scheduler/sequence.h"
#include "orchestrator/scheduler/sequence_state.h"
#include "orchestrator/scheduler/step.h"
#include "orchestrator/scheduler/step_cost.h"
#include "orchestrator/scheduler/tenants.h"
#include "orchestrator/scheduler/waiting_line.h"

namespace sluice {

struct SchedulerOptions {
  int32_t max_tokens_per_step = 512;    // over all segments; prompts longer than it go in chunks
  int32_t max_sequences_per_step = 64;  // segments in a step
  // Waiting ones beyond which Add refuses, and the tokens that they may have together, prompts above
  // all. Twice as much where a tenant has no more than its part of it.
  int32_t max_queued_sequences = 1024;
  int32_t max_queued_tokens = 1 << 22;
  int32_t max_positions = 0;  // the model's context: prompt and new tokens together
  // As many as the pipeline has stages keeps all of them busy; decodes are split evenly over them.
  int32_t max_inflight_steps = 1;
  // So many steps more may be in flight, in which sequences go on that are in flight already: with
  // tokens not known yet, or with the next chunk of a prompt. At most 63.
  int32_t steps_ahead = 0;
  // For models whose keys depend on how long their sequence is: the longest sequence whose keys are
  // like those of one of `length` tokens. Two lengths for which it differs have no use for each
  // other's keys. Empty: all lengths are alike.
  std::function<int32_t(int32_t length)> longest_like;
  // What tenants are granted; asked for at every Add and Plan, so that it may change. Empty or
  // null: all the same, without limits. Sequences that run or wait stay when a limit falls below
  // them.
  std::function<std::shared_ptr<const TenantPolicies>()> tenant_policies;
  // Borrowed; null: nothing is drafted.
  DraftSource* drafts = nullptr;
};

// OK, or INVALID_ARGUMENT naming the field and its value; every field is at least 1.
absl::Status Validate(const SchedulerOptions& options);

struct SchedulerStatistics {
  int32_t waiting_sequences = 0;
  int32_t running_sequences = 0;
  int32_t paused_sequences = 0;  // and those without blocks whose next token is chosen outside
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

  // Puts a sequence in line. Nothing has changed unless OK.
  //   INVALID_ARGUMENT   the spec breaks a rule of SequenceSpec, exceeds max_positions or what the
  //                      whole pool holds, is AlreadyFinished, or names in prompt_of a sequence
  //                      whose prompt is another.
  //   ALREADY_EXISTS     a sequence with this id is alive.
  //   RESOURCE_EXHAUSTED the queue is full, or the tenant's part of it; try again later.
  absl::Status Add(SequenceSpec spec);

  const Tenants& tenants() const { return tenants_; }

  // The next step to execute, or nothing: max_inflight_steps are under way, or no sequence can go
  // on before one of them ends. Worth calling again after any other call that changes something.
  std::optional<Step> Plan();

  // What steps take, as measured of late.
  void SetStepCost(const StepCost& cost) { step_cost_ = cost; }

  // Plan() takes the sequences of this request alone from now on, or again of all. The others keep
  // their places and their blocks, and may be preempted.
  void PlanOnly(std::optional<RequestId> request) { only_ = request; }

  // Applies the results of the oldest step in flight. `tokens` has one entry per row of the step,
  // in the order of its segments and their rows: the token chosen, anything for a kScore row.
  // `deferred` are the indexes, rising, of kSample rows that have no token yet because what they
  // depend on is not ready: their sequences keep their blocks and what was chosen before, and sit
  // out all steps until Return(). Nothing has changed unless OK.
  //   NOT_FOUND           the step is not in flight: never planned, over, or forgotten by Reset.
  //   FAILED_PRECONDITION an older step is still in flight.
  //   INVALID_ARGUMENT    not one token per row, or no such row in `deferred`.
  absl::StatusOr<StepOutcome> Commit(StepId step, absl::Span<const TokenId> tokens,
                                     absl::Span<const int32_t> deferred = {});

  // Lets a sequence that sits out into steps again. Nothing happens to others.
  void Return(SequenceId sequence);

  // Counts processor time that was spent on a tenant outside of steps (masks, compiling) as if it
  // were tokens: as many as steps would have computed in it. Nothing happens where the tenant has no
  // sequence.
  void BillTime(const std::string& tenant, double seconds);

  // The token that comes next in a sequence whose tokens are chosen outside. Nothing has changed
  // unless OK.
  //   NOT_FOUND            it is not alive.
  //   FAILED_PRECONDITION  no row of it has been committed since it got its last token.
  //   INVALID_ARGUMENT     the token ends it, as a stop token or the last one that it may have:
  //                        Finish does that.
  absl::Status Append(SequenceId sequence, TokenId token);

  // Lets a second sequence go on from where `from` was, sharing the blocks that are computed; it
  // runs at once where `from` does and there is a place for it, and has the next place in line.
  // Nothing has changed unless OK.
  //   NOT_FOUND         `from` is not alive.
  //   ALREADY_EXISTS    `to` is alive.
  //   INVALID_ARGUMENT  num_tokens is not between the prompt and all tokens, or the tokens and the
  //                     continuation end the sequence or exceed what its spec allows.
  absl::Status Fork(const ForkSpec& fork);

  // Ends a sequence from outside, in flight or not. The rows it still has in flight are dropped.
  // NOT_FOUND when no such sequence is alive.
  absl::StatusOr<FinishedSequence> Finish(SequenceId sequence, FinishReason reason);

  // The replica was lost and its KV cache with it: forgets the steps in flight and lets every
  // running sequence wait again in its old place. Does not count as preemption.
  void Reset();
  // The same, and the replica has so many blocks from now on, at least 1. Returns the sequences that
  // could not finish with as few: Shorten or Finish each of them.
  std::vector<SequenceId> ResetWithBlocks(int32_t num_blocks);
  // Lets a waiting or paused sequence end where the pool does. False, with nothing changed, for one
  // that has as many tokens already or that is not alive.
  bool Shorten(SequenceId sequence);

  // The steps in flight were lost and the replica's KV cache was not: forgets the steps. Sequences
  // keep their blocks; what a lost step was to compute is computed again into the same slots. Those
  // for which it was to copy a block begin again.
  void AbandonSteps();

  // Keeps a sequence out of steps. It gives up its blocks like a preempted one, at once or when the
  // step ends that it is part of, and keeps its tokens. Nothing happens to one that is not alive.
  void Pause(SequenceId sequence);
  // Puts a paused one in line again, in its old place.
  void Resume(SequenceId sequence);

  // How many waiting sequences have their turn before a new one of this tenant would, in its
  // tenants' line or in all: an estimate, for the lowest priority.
  double StartsAhead(const std::string& tenant) const;

  // Positions that a sequence would have to compute before it chooses a token, by what is known now.
  int32_t NumToCompute(const SequenceSpec& spec) const;

  // The tokens of a sequence: its prompt, then the generated ones that Commit has accepted or that
  // Append and Fork have added. The scheduler owns the only copy. Empty for a sequence that is not
  // alive. Valid until the next call that changes the scheduler.
  absl::Span<const TokenId> TokensOf(SequenceId sequence) const;

  // NOT_FOUND when it is not alive. O(blocks of the sequence).
  absl::StatusOr<SequenceReport> Report(SequenceId sequence) const;

  SchedulerStatistics statistics() const;
  const SchedulerOptions& options() const { return options_; }
  const KvCache& kv_cache() const { return kv_cache_; }

  // OK, or INTERNAL describing the first disagreement between sequences, queues, steps in flight
  // and blocks. O(everything): for tests, and for servers at leisure.
  absl::Status CheckIntegrity() const;

 private:
  struct PlannedSegment {
    SequenceState* sequence = nullptr;  // null once it has ended or was thrown back
    int32_t first_position = 0;
    int32_t num_positions = 0;  // those of the drafts included
    Rows rows;
    Tokens drafts;
  };
  struct PlannedStep {
    StepId id = 0;
    int32_t num_rows = 0;
    std::vector<PlannedSegment> segments;
  };
  // What came back for a segment.
  struct SegmentResults {
    absl::Span<const TokenId> tokens;    // of all rows of the step
    absl::Span<const int32_t> deferred;  // rows of the step
    int32_t first_row = 0;               // of the segment
  };
  struct Budget {
    int32_t tokens = 0;
    int32_t segments = 0;
    int32_t rows = 0;  // that the step has
    // Of `tokens`, those that are not kept for light tenants (shared_steps.cc).
    int32_t others = 0;
    bool is_shared = false;  // some are
  };

  // What a sequence needs to write positions [first, end).
  struct Need {
    SequenceId sequence = 0;
    int32_t first = 0;
    int32_t end = 0;
    int32_t places = 0;  // 1 for one that is to run
    // One that is to run in a place that another tenant has beyond its fair part; else null.
    const SequenceState* displacing = nullptr;
  };

  // What a sequence need not compute.
  struct Beginning {
    int32_t num_positions = 0;
    bool from_sibling = false;
  };

  // Plan, in its order (plan.cc).
  bool HasRoomForAStep();
  void AgreeOnStepsAhead();
  void AdmitUrgent();
  void PlanDecodes(Step& step, Budget& budget);
  void PlanPrefills(Step& step, Budget& budget);
  void Complete(Step& step);
  void AppendSegment(SequenceState& sequence, int32_t num_positions, const Tokens& draft,
                     Step& step, Budget& budget);
  void Describe(const SequenceState& sequence, int32_t num_positions, const Tokens& draft,
                Segment& segment);
  void FindReady();
  void PutDecodesInTurn(const Budget& budget);
  void PutPrefillsInTurn();
  bool MayPrefill() const;
  bool IsReady(const SequenceState& sequence) const;
  bool MayGoAhead(const SequenceState& sequence) const;
  void Bill(SequenceState& sequence, int32_t num_positions, int32_t num_drafts);
  void BillDecodes();

  // What others leave to tenants that ask for little (shared_steps.cc).
  bool IsLight(const Tenant& tenant) const;
  int32_t RoomForOthers(StepId step);
  int32_t MostOf(const SequenceState& sequence, const Budget& budget) const;
  // What is computed beside decodes (drafts.cc).
  bool IsPrefilling() const;
  int32_t MostDrafts(const SequenceState& sequence) const;
  std::vector<Tokens> AskForDrafts(absl::Span<SequenceState* const> decodes, const DraftRoom& room);
  void EquipDraft(SequenceState& sequence, Tokens& draft);
  static int32_t NumAccepted(const PlannedSegment& segment, absl::Span<const TokenId> chosen);

  bool MayRun(const SequenceState& sequence) const {
    return !sequence.paused && !sequence.sits_out &&
           (!only_.has_value() || sequence.spec.request == *only_);
  }

  // Who holds blocks (room.cc).
  bool Admit(SequenceState& sequence);
  bool MayFindRoom(const SequenceState& sequence) const;
  bool IsUrgent(const SequenceState& sequence) const;
  bool MayDisplace(const SequenceState& sequence) const;
  void StartRunning(SequenceState& sequence);
  Beginning BeginWithOthers(SequenceState& sequence);
  static void CountBeginning(SequenceState& sequence, const Beginning& beginning);
  bool HeldBack(const SequenceState& sequence) const;
  const SequenceState* SharesWith(const SequenceState& sequence) const;
  bool Equip(SequenceState& sequence, int32_t num_positions);
  void Reserve(SequenceState& sequence, int32_t num_positions);
  bool MakeRoom(const Need& need, const PlaceInLine& below);
  std::vector<SequenceState*> Victims(const Need& need, const PlaceInLine& below,
                                      bool& others_in_flight) const;
  bool MayBeDisplaced(const SequenceState& sequence, const Need& need, int32_t num_displaced) const;
  int64_t MaxRunning() const;
  bool AreAlike(int32_t length, int32_t other_length) const;
  PrefixDomain DomainOf(const SequenceState& sequence) const;
  void Preempt(SequenceState& sequence);
  void ThrowBack(SequenceState& sequence, ThrownBackBy cause);
  void CountAgain(SequenceState& sequence, int32_t first, int32_t end);
  void CountWork(SequenceState& sequence, int32_t num_positions, int32_t num_drafts,
                 int32_t num_wrong);
  FinishedSequence End(SequenceState& sequence, FinishReason reason);

  // Sequences whose tokens are chosen outside (choice.cc).
  void AwaitChoice(SequenceState& sequence);
  void EndAwaiting(SequenceState& sequence);
  void GiveUpPlacesOfAwaiting();

  void ForgetFlight(SequenceState& sequence);
  static bool IsDeferred(const PlannedSegment& segment, const SegmentResults& results,
                         int32_t& num_accepted);
  void Defer(SequenceState& sequence, StepOutcome& outcome);
  void CommitSegment(SequenceState& sequence, const PlannedSegment& segment,
                     const SegmentResults& results, StepOutcome& outcome);
  void AcceptRows(SequenceState& sequence, const PlannedSegment& segment, int32_t num_dropped,
                  const SegmentResults& results, StepOutcome& outcome);
  void EndOrThrowBack(SequenceState& sequence, int32_t num_tokens_before, StepOutcome& outcome);

  static SequenceSpec SpecOf(const SequenceState& from, const ForkSpec& fork);
  bool MayShareWithFork(const SequenceState& from, const SequenceState& to) const;
  void RefreshPolicies();
  absl::Status CheckQueue(const SequenceSpec& spec) const;
  absl::Status CheckSpec(const SequenceSpec& spec) const;
  absl::Status CheckSize(const SequenceSpec& spec) const;
  // What CheckIntegrity proves (integrity.cc).
  struct Flight {
    int32_t num_steps = 0;  // in flight that a sequence is part of
    int32_t end = 0;        // of its positions in them
  };
  using Flights = absl::flat_hash_map<const SequenceState*, Flight>;
  absl::Status CheckAlone(const SequenceState& sequence) const;
  absl::Status CheckLines() const;
  absl::Status CheckParked() const;
  absl::Status CheckTenants() const;
  absl::Status CheckStepsInFlight() const;
  absl::Status CheckFlights(const Flights& flights) const;

  std::deque<PlannedStep>::iterator FindInFlight(StepId step);
  absl::Status NotInFlight(StepId step) const;
  SequenceState* Find(SequenceId id);
  const SequenceState* Find(SequenceId id) const;

  const SchedulerOptions options_;
  KvCache kv_cache_;
  absl::node_hash_map<SequenceId, SequenceState> sequences_;  // owns; the lines borrow
  std::shared_ptr<const TenantPolicies> policies_;            // that tenants_ has
  Tenants tenants_;
  WaitingLine waiting_;
  Line running_;
  // Of the step being planned.
  std::vector<SequenceState*> decodes_, prefills_;  // that can be computed (FindReady)
  bool decodes_in_turn_ = true;                     // those longest without a step first
  std::vector<Tenant*> unbilled_;                   // with decodes in it
  std::deque<PlannedStep> in_flight_;               // oldest first
  // Somebody lacks blocks or a place that sequences in flight could give up: none of them goes
  // ahead in this step, so that they come to be free to.
  bool contended_ = false;
  int32_t steps_ahead_ = 0;        // of the step being planned
  bool may_hold_ = false;          // in it: sequences may wait for drafts that are on their way
  bool was_idle_ = true;           // Step::after_idle
  std::optional<RequestId> only_;  // PlanOnly
  StepCost step_cost_;
  StepId last_light_step_ = 0;  // with a sequence of a light tenant; 0: none
  double rest_of_room_ = 0;     // of RoomForOthers, less than 1
  StepId last_step_ = 0;
  std::vector<BlockCopy> copies_;      // for the next step
  std::vector<SequenceId> preempted_;  // the same
  uint64_t num_added_ = 0;
  int32_t num_parked_ = 0;    // hold nothing and stand in no line
  int32_t num_awaiting_ = 0;  // running ones that await a choice
  uint64_t num_started_ = 0;
  uint64_t num_preemptions_ = 0;
  uint64_t num_computed_ = 0;
  uint64_t num_drafted_ = 0;
  uint64_t num_accepted_ = 0;
  RecomputedPositions recomputed_;
};

}  // namespace sluice
