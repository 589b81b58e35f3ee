// The ledger of steps that are planned and neither committed nor lost: which positions of which
// sequence each of them computes, and what its rows are. It keeps SequenceState::flight and
// num_planned. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "orchestrator/scheduler/state_table.h"
#include "orchestrator/scheduler/step.h"

namespace sluice {

struct PlannedSegment {
  SequenceState* sequence = nullptr;  // null once it has ended, or lost its blocks
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

class StepsInFlight {
 public:
  // Begins a step, with room for `most_segments`; the latest step until Complete or Drop.
  void Begin(size_t most_segments);
  // Adds a segment to the step that has begun: the positions of `sequence` from num_planned on, of
  // which the last are those of `drafts`. `segment` has its rows.
  void Add(SequenceState& sequence, const Segment& segment, const Tokens& drafts);
  // The step that has begun is on its way.
  void Complete() { last_id_ = steps_.back().id; }
  // The step that has begun turned out to be empty.
  void Drop() { steps_.pop_back(); }

  // OK, or the error that Scheduler::Commit returns for these results.
  absl::Status CheckResults(StepId step, size_t num_tokens,
                            absl::Span<const int32_t> deferred) const;
  // Takes the oldest step out. REQUIRES: CheckResults(its id, ...).ok().
  PlannedStep TakeOldest();
  // Counts the end of a segment of a step that was taken out. The sequence goes on at `end`.
  static void Land(SequenceState& sequence, const PlannedSegment& segment, int32_t end,
                   int32_t num_wrong_drafts);

  // What steps compute of `sequence` will not come, or does not count.
  void Forget(SequenceState& sequence);
  // All steps are lost. The sequences in them have yet to Forget.
  void Clear() { steps_.clear(); }

  bool empty() const { return steps_.empty(); }
  int64_t size() const { return std::ssize(steps_); }  // with the step that has begun
  StepId oldest_id() const { return steps_.front().id; }
  StepId last_id() const { return last_id_; }  // 0: none was ever planned
  // Of the step that has begun, or would begin.
  StepId next_id() const { return last_id_ + 1; }

  // OK, or INTERNAL naming the first disagreement between steps and the flights of sequences.
  absl::Status CheckIntegrity(const StateTable& table, int64_t max_steps) const;

 private:
  struct Span {
    int32_t num_steps = 0;
    int32_t end = 0;  // of the sequence's positions in them
  };
  using Spans = absl::flat_hash_map<const SequenceState*, Span>;
  static absl::Status CheckFlights(const StateTable& table, const Spans& spans);

  std::deque<PlannedStep> steps_;  // oldest first
  StepId last_id_ = 0;
};

}  // namespace sluice
