// A replica in virtual time: it executes no step, and takes as long as the cost table says that one
// takes. Pipeline stages compute different steps at the same time, each its share of a step's cost;
// a step that names a token of another begins once that is chosen.
//
// Lives on one event loop and is told the time.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "orchestrator/capacity/step_costs.h"
#include "orchestrator/pipeline/replica.h"

namespace sluice {

class SimulatedReplica final : public Replica {
 public:
  // Ready at once. The tokens that it chooses are NewTokenOf of the request whose index is the
  // sampling seed. `costs` is borrowed.
  SimulatedReplica(const StepCosts* costs, const KvGeometry& geometry);

  void Advance(SteadyTime now) override;
  SteadyTime NextWake() const override;
  std::vector<ReplicaEvent> TakeEvents() override { return std::exchange(events_, {}); }
  void Execute(const Step& step, absl::Span<const RowRequest> rows) override;
  // It is lost at the next Advance(), and ready right after.
  void MarkFailed(const absl::Status& status) override { failure_ = status; }
  const Topology& topology() const override { return topology_; }
  std::shared_ptr<const std::vector<ReplicaProcess>> processes() const override {
    return processes_;
  }

  // Seconds in which its first stage computed, of steps that have been sent.
  double busy_seconds() const { return busy_seconds_; }
  int64_t num_steps() const { return num_steps_; }
  int64_t num_segments() const { return num_segments_; }  // of all steps

 private:
  struct SentStep {
    SteadyTime end;
    StepExecuted executed;
  };

  // When the tokens that the step takes from steps before it are there.
  SteadyTime TokensKnown(const Step& step) const;

  const StepCosts* const costs_;
  const KvGeometry geometry_;
  Topology topology_;
  const std::shared_ptr<const std::vector<ReplicaProcess>> processes_;
  SteadyTime now_;
  uint64_t epoch_ = 1;
  absl::Status failure_;
  std::vector<SteadyTime> free_;  // by stage
  std::deque<SentStep> sent_;     // oldest first
  std::vector<ReplicaEvent> events_;
  double busy_seconds_ = 0;
  int64_t num_steps_ = 0;
  int64_t num_segments_ = 0;
};

}  // namespace sluice
