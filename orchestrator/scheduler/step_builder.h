// Fills the next step: which sequences get how many positions in it. Takes candidates from
// AdmissionQueue, blocks from BlockBudget, and limits from Lookahead, DraftPlanner and StepSharing.
// README.md states the policy. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "orchestrator/kv_cache/kv_cache.h"
#include "orchestrator/scheduler/admission_queue.h"
#include "orchestrator/scheduler/block_budget.h"
#include "orchestrator/scheduler/draft_planner.h"
#include "orchestrator/scheduler/lookahead.h"
#include "orchestrator/scheduler/scheduler_options.h"
#include "orchestrator/scheduler/state_table.h"
#include "orchestrator/scheduler/step.h"
#include "orchestrator/scheduler/step_sharing.h"
#include "orchestrator/scheduler/steps_in_flight.h"

namespace sluice {

class StepBuilder {
 public:
  // Borrows all of them.
  StepBuilder(const SchedulerOptions& options, KvCache& kv_cache, StateTable& table,
              StepsInFlight& flights, AdmissionQueue& admission, BlockBudget& budget);

  // The next step, which is in flight from now on, or nothing: see Scheduler::Plan.
  std::optional<Step> Build();

  // What steps have cost lately.
  void SetStepCost(const StepCost& cost) { sharing_.SetStepCost(cost); }
  const StepCost& step_cost() const { return sharing_.step_cost(); }

 private:
  // What the step being planned has left.
  struct Room {
    int32_t tokens = 0;
    int32_t segments = 0;
    // Of `tokens`, those that are not reserved for tenants below their fair share.
    int32_t others = 0;
    bool is_shared = false;  // some are reserved
  };

  // In this order.
  void AdmitUrgent();
  void FindReady();
  void PlanDecodes(Step& step, Room& room);
  void PlanPrefills(Step& step, Room& room);

  void OrderDecodes(const Room& room);
  void OrderPrefills();
  void AppendPrefill(SequenceState& sequence, Step& step, Room& room);
  void AppendSegment(SequenceState& sequence, int32_t num_positions, const Tokens& drafts,
                     Step& step, Room& room);
  void Describe(const SequenceState& sequence, int32_t num_positions, const Tokens& drafts,
                Segment& segment);
  bool MayPrefill() const;
  int32_t MostPositions(const SequenceState& sequence, const Room& room) const;
  // How many of its pending positions the step takes; 0 where it takes none, which is all or nothing
  // of a sequence in one piece.
  int32_t PositionsFor(const SequenceState& sequence, const Step& step, const Room& room) const;

  const SchedulerOptions& options_;
  KvCache& kv_cache_;
  StateTable& table_;
  StepsInFlight& flights_;
  AdmissionQueue& admission_;
  BlockBudget& budget_;
  Lookahead lookahead_;
  DraftPlanner drafts_;
  StepSharing sharing_;
  // Running sequences that are ready: decodes lack one position, prefills more.
  std::vector<SequenceState*> decodes_, prefills_;
  bool decodes_in_order_ = true;  // those longest without a step first
};

}  // namespace sluice
