// A model being served: a replica, the scheduler of its sequences with the bookkeeping of its KV
// cache, the steps in flight, the epoch, and what becomes of all that when the replica is lost. The
// served model is one, a draft model is another; a second replica would be a third.
//
// The loop, driven by its owner:
//
//   Advance     takes what the replica reports. Results of a step are committed to the scheduler and
//               handed to the owner. A step that hangs makes the runner fail its replica.
//   SendSteps   sends every step that the scheduler plans; the owner says what each row asks for.
//
// When the replica is lost, the steps in flight are lost with it; the scheduler keeps every
// sequence's tokens. The replica comes back by itself under a larger epoch, and the runner goes on
// with the blocks that it still has, or computes them again. Sequences are given up only where what
// was begun could not go on with the same bits, or no longer fits: the owner ends those.
//
// Lives on one event loop and is told the time.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "orchestrator/pipeline/replica.h"
#include "orchestrator/scheduler/scheduler.h"
#include "orchestrator/step_time/step_time_model.h"
#include "services/common/prefix_key.h"
#include "services/common/steady_time.h"

namespace sluice {

// What a model is served for: its tokens are what clients get, or drafts that the target checks.
enum class RunnerRole { kTarget, kDraft };

struct RunnerOptions {
  RunnerRole role = RunnerRole::kTarget;
  SchedulerOptions scheduler;
  // A step hangs once it takes longer than this, and several times what steps like it have taken.
  absl::Duration hang_timeout = absl::Seconds(2);
};

// "target" or "draft".
const char* NameOf(RunnerRole role);
// Names a process where those of all runners are listed together: "shard", of a draft model
// "draft-shard".
std::string ServiceName(RunnerRole role, const std::string& service);

struct RunnerStatus {
  RunnerRole role = RunnerRole::kTarget;
  bool ready = false;  // steps can complete
  uint64_t epoch = 0;
  SchedulerStatistics scheduler;
  uint64_t num_steps = 0;
  uint64_t num_hangs = 0;                   // steps given up because they took too long
  uint64_t num_recoveries = 0;              // losses
  uint64_t num_recoveries_with_blocks = 0;  // of them: nothing had to be computed again
  // Of its replica; never null.
  std::shared_ptr<const std::vector<ReplicaProcess>> processes =
      std::make_shared<std::vector<ReplicaProcess>>();
};

class ModelRunner {
 public:
  // Whose sequences a runner computes. Called from within Advance and SendSteps.
  class Owner {
   public:
    virtual ~Owner() = default;

    // A step is about to be sent: appends what is asked of the sampler for its rows, in the order
    // of its segments and their rows. What the rows borrow must live until the next call of any
    // method here.
    virtual void DescribeRows(const Step& step, std::vector<RowRequest>& rows) = 0;
    // A step was executed, and the sampler spent processor time on the masks of a sequence. Both
    // come before the step is committed.
    virtual void OnExecuted(const StepSample& /*sample*/) {}
    virtual void OnMaskWork(SequenceId /*sequence*/, absl::Duration /*work*/) {}
    // A step was committed. `rows` are its results; `outcome` says which of them count.
    virtual void OnCommitted(StepOutcome outcome, std::vector<RowResult> rows) = 0;
    // Whether steps were held back on purpose at `since` or later: the time before a step's sending
    // is then not part of what it costs.
    virtual bool HeldBackSince(SteadyTime since) const = 0;

    // The replica came back with other weights, arithmetic or blocks: no sequence can go on. The
    // scheduler, null where there was none yet, is replaced after this.
    virtual void OnChanged(const std::string& change) = 0;
    // It came back with another number of blocks, too few for `too_large`: each must be shortened
    // or finished.
    virtual void OnResized(const KvGeometry& geometry, int32_t num_blocks_before,
                           absl::Span<const SequenceId> too_large) = 0;
    // Steps can be sent, under the runner's epoch.
    virtual void OnReady() {}
    // The steps in flight are lost: `in_flight` are their sequences, once for each step.
    virtual void OnLost(const absl::Status& status, absl::Span<const SequenceId> in_flight,
                        SteadyTime now) = 0;
    // Another orchestrator has the replica; repeated several times a second while it has.
    virtual void OnStandby(const absl::Status& /*status*/, SteadyTime /*now*/) {}
  };

  // Borrows both.
  ModelRunner(const RunnerOptions& options, Replica* replica, Owner* owner);

  void Advance(SteadyTime now);
  void SendSteps(SteadyTime now);
  // When Advance or SendSteps has something to do even if nothing comes.
  SteadyTime NextWake() const;

  // Null before the first incarnation of the replica says how many blocks there are. Replaced only
  // as Owner::OnChanged says.
  Scheduler* scheduler() { return scheduler_.has_value() ? &*scheduler_ : nullptr; }
  const Scheduler* scheduler() const { return scheduler_.has_value() ? &*scheduler_ : nullptr; }
  const Replica& replica() const { return *replica_; }
  const StepTimeModel& step_times() const { return step_times_; }

  bool ready() const { return ready_; }
  bool CanSend() const { return ready_ && !failed_; }
  uint64_t epoch() const { return epoch_; }
  uint64_t num_steps() const { return num_steps_; }
  bool idle() const { return in_flight_.empty(); }
  // A sequence sits out steps because its mask was not ready: Advance lets it in again.
  bool awaits_returns() const { return !returns_.empty(); }
  RunnerStatus status() const;

 private:
  struct StepInFlight {
    StepId id = 0;
    int32_t num_positions = 0;
    size_t num_rows = 0;
    std::vector<SequenceId> sequences;                   // of its segments
    std::vector<std::pair<int32_t, SequenceId>> masked;  // rows whose sequences have a constraint
    SteadyTime sent;
    absl::Duration bound;  // for it and those ahead of it
    bool ahead = false;    // sent while another was in flight
    bool after_idle = false;
  };

  void On(StepExecuted& executed, SteadyTime now);
  void On(const ReplicaReady& ready);
  // What the keys of blocks begin with.
  PrefixKey ModelKeyFor(int32_t block_size) const;
  void On(const ReplicaLost& lost, SteadyTime now);
  void FailReplica(const absl::Status& status);
  void CheckHang(SteadyTime now);

  void Send(const Step& step, SteadyTime now);
  absl::Status Commit(StepExecuted& executed, SteadyTime now);
  void Measure(const StepInFlight& step, SteadyTime now);
  StepSample SampleOf(const StepInFlight& step, SteadyTime now) const;
  // Rows that have no token yet because a mask is not ready: their sequences come back after a
  // pause, a longer one each time.
  void SitOut(absl::Span<const SequenceId> sequences, SteadyTime now);
  void ReturnDue(SteadyTime now);

  const RunnerOptions options_;
  Replica* const replica_;
  Owner* const owner_;
  std::optional<Scheduler> scheduler_;
  StepTimeModel step_times_;

  bool ready_ = false;
  bool failed_ = false;  // the runner has failed its replica, whose loss has not come yet
  uint64_t epoch_ = 0;
  std::deque<StepInFlight> in_flight_;                      // oldest first
  SteadyTime last_end_;                                     // of the last step that completed
  std::vector<RowRequest> rows_;                            // of the step being sent
  std::set<std::pair<SteadyTime, SequenceId>> returns_;     // of sequences that sit out
  absl::flat_hash_map<SequenceId, absl::Duration> pauses_;  // the last one, until a token comes
  uint64_t num_steps_ = 0;
  uint64_t num_hangs_ = 0;
  uint64_t num_recoveries_ = 0;
  uint64_t num_recoveries_with_blocks_ = 0;
};

}  // namespace sluice
