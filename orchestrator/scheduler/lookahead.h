// How far sequences are planned before their tokens are known: which steps and which sequences go
// ahead of what steps in flight choose, and which wait for drafts instead. Not thread-safe.
#pragma once

#include <cstdint>

#include "orchestrator/scheduler/admission_queue.h"
#include "orchestrator/scheduler/block_budget.h"
#include "orchestrator/scheduler/scheduler_options.h"
#include "orchestrator/scheduler/state_table.h"
#include "orchestrator/scheduler/steps_in_flight.h"

namespace sluice {

class Lookahead {
 public:
  // Borrows all of them.
  Lookahead(const SchedulerOptions& options, const StateTable& table, const StepsInFlight& flights,
            const AdmissionQueue& admission, const BlockBudget& budget)
      : options_(options),
        table_(table),
        flights_(flights),
        admission_(admission),
        budget_(budget) {}

  // A step begins to be planned. False: as many are in flight as may be.
  bool BeginStep();

  // A position of the running sequence can be computed in the step.
  bool IsReady(const SequenceState& sequence) const {
    if (sequence.num_pending() == 0 || !admission_.IsServed(sequence)) return false;
    if (sequence.flight.num_steps > 0) return MayGoAhead(sequence);
    return !may_hold_ || !IsHeldForDraft(sequence);
  }

 private:
  bool HasRoomForAStep(int32_t steps_ahead) const {
    return flights_.size() < options_.max_inflight_steps + steps_ahead;
  }
  bool IsPrefilling() const;
  bool MayGoAhead(const SequenceState& sequence) const;
  bool IsHeldForDraft(const SequenceState& sequence) const;

  const SchedulerOptions& options_;
  const StateTable& table_;
  const StepsInFlight& flights_;
  const AdmissionQueue& admission_;
  const BlockBudget& budget_;
  // Of the step being planned.
  int32_t steps_ahead_ = 0;
  bool may_hold_ = false;  // sequences may wait for drafts that are on their way
};

}  // namespace sluice
