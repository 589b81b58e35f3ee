// Who drives steps: asks the scheduler for them, sends them through the replica, commits what comes
// back, and knows which are under way.
//
// Lives on one event loop.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "orchestrator/engine/request_table.h"
#include "orchestrator/pipeline/replica.h"
#include "orchestrator/scheduler/scheduler.h"
#include "services/common/steady_time.h"

namespace sluice {

class StepDriver {
 public:
  // Borrows both. A step that takes longer than `step_timeout` hangs.
  StepDriver(absl::Duration step_timeout, Replica* replica, RequestTable* requests);

  // Sends every step that the scheduler plans.
  void SendSteps(Scheduler& scheduler, SteadyTime now);

  // Commits a step that was executed; TellRequests() passes on what it brought. An error: the
  // replica did not answer as it should, and nothing it says counts any more.
  absl::Status Commit(Scheduler& scheduler, StepExecuted executed);

  // Tells requests what committed steps have brought.
  void TellRequests();

  // The steps under way are lost: the requests that had a part in them, each once.
  std::vector<RequestId> Lose();

  // OK, or DEADLINE_EXCEEDED naming the step that hangs.
  absl::Status CheckTimeout(SteadyTime now) const;
  SteadyTime NextTimeout() const;

  uint64_t num_steps() const { return num_steps_; }

 private:
  struct StepInFlight {
    StepId id = 0;
    SteadyTime sent;
    std::vector<SequenceId> sequences;      // in the step
    std::vector<SequenceId> row_sequences;  // of each row
  };
  // What a step brought, committed but not yet told to its requests.
  struct Committed {
    StepOutcome outcome;
    std::vector<RowResult> rows;
  };

  void Send(const Step& step, SteadyTime now);
  void FailBrokenRows(const StepInFlight& step, const std::vector<RowResult>& rows);

  const absl::Duration step_timeout_;
  Replica* const replica_;
  RequestTable* const requests_;

  std::deque<StepInFlight> in_flight_;  // oldest first
  std::vector<Committed> committed_;    // in order
  uint64_t num_steps_ = 0;
};

}  // namespace sluice
