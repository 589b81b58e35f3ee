// How sequences go on and end: what the results of a step mean for them, tokens that are sampled
// externally, and the end. Not thread-safe.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "orchestrator/kv_cache/kv_cache.h"
#include "orchestrator/scheduler/block_budget.h"
#include "orchestrator/scheduler/scheduler_options.h"
#include "orchestrator/scheduler/state_table.h"
#include "orchestrator/scheduler/step.h"
#include "orchestrator/scheduler/steps_in_flight.h"

namespace sluice {

// Of all committed steps.
struct ProgressCounts {
  uint64_t computed_positions = 0;  // without those of wrong drafts
  uint64_t drafted_tokens = 0;
  uint64_t accepted_drafts = 0;
  RecomputedPositions recomputed;
};

class SequenceProgress {
 public:
  // Borrows all of them.
  SequenceProgress(const SchedulerOptions& options, KvCache& kv_cache, StateTable& table,
                   StepsInFlight& flights, BlockBudget& budget)
      : options_(options), kv_cache_(kv_cache), table_(table), flights_(flights), budget_(budget) {}

  // As Scheduler::Commit and Scheduler::Append.
  absl::StatusOr<StepOutcome> Commit(StepId step, absl::Span<const TokenId> tokens,
                                     absl::Span<const int32_t> deferred);
  absl::Status Append(SequenceId sequence, TokenId token);
  // Ends a sequence and removes it from the table.
  FinishedSequence End(SequenceState& sequence, FinishReason reason);

  const ProgressCounts& counts() const { return counts_; }

 private:
  // What came back for a segment.
  struct SegmentResults {
    absl::Span<const TokenId> tokens;    // of all rows of the step
    absl::Span<const int32_t> deferred;  // rows of the step
    int32_t first_row = 0;               // of the segment
  };

  void CommitSegment(SequenceState& sequence, const PlannedSegment& segment,
                     const SegmentResults& results, StepOutcome& outcome);
  static int32_t NumAccepted(const PlannedSegment& segment, absl::Span<const TokenId> chosen);
  static bool IsDeferred(const PlannedSegment& segment, const SegmentResults& results,
                         int32_t& num_accepted);
  void AcceptRows(SequenceState& sequence, const PlannedSegment& segment, int32_t num_dropped,
                  const SegmentResults& results, StepOutcome& outcome);
  void Defer(SequenceState& sequence, StepOutcome& outcome);
  void EndOrRequeue(SequenceState& sequence, int32_t num_tokens_before, StepOutcome& outcome);
  void CountRecomputed(SequenceState& sequence, int32_t first, int32_t end);
  void CountWork(SequenceState& sequence, int32_t num_positions, int32_t num_drafts,
                 int32_t num_wrong);

  const SchedulerOptions& options_;
  KvCache& kv_cache_;
  StateTable& table_;
  StepsInFlight& flights_;
  BlockBudget& budget_;
  ProgressCounts counts_;
};

}  // namespace sluice
