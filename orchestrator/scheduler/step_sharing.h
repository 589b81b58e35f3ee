// How much of a step tenants may have beside a tenant below its fair share, so that the step does
// not take much longer for what they add. Not thread-safe.
#pragma once

#include <cstdint>

#include "orchestrator/scheduler/admission_queue.h"
#include "orchestrator/scheduler/scheduler_options.h"
#include "orchestrator/scheduler/state_table.h"
#include "orchestrator/scheduler/step_cost.h"
#include "orchestrator/scheduler/steps_in_flight.h"

namespace sluice {

class StepSharing {
 public:
  // Borrows all of them.
  StepSharing(const SchedulerOptions& options, const StateTable& table,
              const StepsInFlight& flights, const AdmissionQueue& admission)
      : options_(options), table_(table), flights_(flights), admission_(admission) {}

  // What steps have cost lately.
  void SetStepCost(const StepCost& cost) { cost_ = cost; }
  const StepCost& step_cost() const { return cost_; }

  // Positions that the step being planned has for tenants at or above their fair share;
  // max_tokens_per_step where it is not shared. `may_prefill`: they may also have a prompt in it.
  int32_t RoomForOthers(bool may_prefill);

 private:
  const SchedulerOptions& options_;
  const StateTable& table_;
  const StepsInFlight& flights_;
  const AdmissionQueue& admission_;
  StepCost cost_;
  StepId last_shared_step_ = 0;  // with a sequence of a tenant below its fair share; 0: none
  double rest_of_room_ = 0;      // what RoomForOthers rounded off, less than 1
};

}  // namespace sluice
