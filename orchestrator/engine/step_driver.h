// Who drives steps: asks the scheduler for them, sends them through the replica, commits what comes
// back, and knows which are under way.
//
// Lives on one event loop.
#pragma once

#include <cstdint>
#include <deque>
#include <set>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "orchestrator/drafts/speculation.h"
#include "orchestrator/engine/observer.h"
#include "orchestrator/engine/request_table.h"
#include "orchestrator/engine/step_cost_fit.h"
#include "orchestrator/pipeline/replica.h"
#include "orchestrator/scheduler/scheduler.h"
#include "services/common/steady_time.h"
#include "services/common/step_times.h"

namespace sluice {

class StepDriver {
 public:
  // Borrows both. A step hangs once it takes longer than `hang_timeout` and several times what
  // steps like it have taken.
  // `speculation` hears what steps take and what must follow; `observer` may be null.
  StepDriver(absl::Duration hang_timeout, Replica* replica, RequestTable* requests,
             Speculation* speculation, EngineObserver* observer);

  // Sends every step that the scheduler plans.
  void SendSteps(Scheduler& scheduler, SteadyTime now);

  // Commits a step that was executed; TellRequests() passes on what it brought. An error: the
  // replica did not answer as it should, and nothing it says counts any more.
  absl::Status Commit(Scheduler& scheduler, StepExecuted executed, SteadyTime now);

  // Tells requests what committed steps have brought. Returns those that have a new token.
  std::vector<RequestId> TellRequests();

  // When a sequence that sits out (Scheduler::Commit) is asked for again: SendSteps() does it.
  SteadyTime NextReturn() const {
    return returns_.empty() ? SteadyTime::InfiniteFuture() : returns_.begin()->first;
  }
  bool awaits_returns() const { return !returns_.empty(); }

  // The steps under way are lost: the requests that had a part in them, each once.
  std::vector<RequestId> Lose();

  // OK, or DEADLINE_EXCEEDED naming the step that hangs.
  absl::Status CheckTimeout(SteadyTime now);
  SteadyTime NextTimeout() const;

  bool idle() const { return in_flight_.empty(); }
  uint64_t num_steps() const { return num_steps_; }
  uint64_t num_hangs() const { return num_hangs_; }

 private:
  struct StepInFlight {
    StepId id = 0;
    int num_positions = 0;
    SteadyTime sent;
    absl::Duration bound;               // for it and those ahead of it
    std::vector<SequenceId> sequences;  // in the step
    size_t num_rows = 0;
    // Rows whose sequences have a constraint, with these.
    std::vector<std::pair<int32_t, SequenceId>> constrained;
    bool ahead = false;  // sent while another was under way
    bool after_idle = false;
  };
  // What a step brought, committed but not yet told to its requests.
  struct Committed {
    StepOutcome outcome;
    std::vector<RowResult> rows;
  };

  void Send(const Step& step, SteadyTime now);
  // Rows without a token yet: their sequences come back after a pause, a longer one each time.
  void SitOut(const std::vector<SequenceId>& sequences, SteadyTime now);
  void ReturnDue(Scheduler& scheduler, SteadyTime now);
  // What the sampler spent on masks.
  void CountWork(const StepInFlight& step, const std::vector<RowResult>& rows);
  void Measure(const StepInFlight& step, Scheduler& scheduler, SteadyTime now);
  void FailBrokenRows(const StepOutcome& outcome, const std::vector<RowResult>& rows);

  Replica* const replica_;
  RequestTable* const requests_;
  Speculation* const speculation_;
  EngineObserver* const observer_;
  StepTimes times_;
  StepCostFit costs_;

  std::deque<StepInFlight> in_flight_;  // oldest first
  SteadyTime last_end_;                 // when the last step that completed did
  std::vector<Committed> committed_;    // in order
  std::vector<RowRequest> rows_;        // of the step being sent
  std::set<std::pair<SteadyTime, SequenceId>> returns_;
  absl::flat_hash_map<SequenceId, absl::Duration> pauses_;  // the last one, until a token comes
  std::vector<std::pair<SequenceId, absl::Status>> overworked_;
  uint64_t num_steps_ = 0;
  uint64_t num_hangs_ = 0;  // steps given up
};

}  // namespace sluice
