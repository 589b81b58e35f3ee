// A shard in one epoch. For each step: the stage's layers over its hidden rows. Rank 0 sends the
// result to the next stage.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "kernels/backend.h"
#include "kernels/communicator.h"
#include "services/model/adapter_library.h"
#include "services/rows/row_ring.h"
#include "services/shard/block_tables.h"
#include "services/shard/rank_steps.h"
#include "services/shard/shard_model.h"
#include "services/shard/step_clock.h"
#include "services/stage/stage.h"
#include "services/stage/stage_port.h"
#include "services/stage/stage_worker.h"

namespace sluice {

// Meets the other ranks of the stage: blocks until all have joined, the deadline has passed or
// it is told to stop.
using JoinRanks = std::function<absl::StatusOr<std::unique_ptr<Communicator>>(
    Deadline deadline, const std::stop_token& stop)>;

// What the sessions of a shard work with; borrowed.
struct ShardParts {
  ShardModel& model;
  AdapterLibrary& adapters;
  Backend& backend;
  RowRing& ring;  // for rows to the next stage
  StepClock& clock;
  int64_t hidden_size;
  absl::Duration step_timeout;
  bool is_last_stage;
  int num_stages;
  int num_ranks;
};

class ShardSession final : public StageSession {
 public:
  // `next_stage`: of rank 0; null makes this one of the other ranks, which get no plans.
  ShardSession(const StageOpening& opening, const ShardParts& parts, JoinRanks join,
               std::shared_ptr<grpc::Channel> next_stage);

  void AddPlan(v1::StageRunRequest request) override;
  void Run() override { port_.Finish(Serve()); }
  void Close(const absl::Status& reason) override { port_.Close(reason); }

 private:
  absl::Status Serve();
  // Meets the other ranks.
  absl::StatusOr<Communicator*> Join();
  // Wakes whoever waits for another rank.
  void Abort(const absl::Status& reason);
  absl::Status Execute(const ShardStep& step);
  // Takes up the step's adapters, makes its block copies and runs this rank's layers over the rows of the port.
  absl::Status Forward(const v1::StageExecute& step);
  // Of how long stages computed for the rows, what others have since this one did.
  absl::Span<const uint64_t> ComputedByOthers(const ShardStep& step) const;
  // Reports how the shard has spent its time, now and then.
  void ReportTimes(SteadyTime now);

  const bool leads_;  // rank 0
  const ShardParts parts_;
  const JoinRanks join_;
  const std::function<void()> on_step_;
  BlockTables tables_;
  std::vector<ShardSegment> segments_;
  std::vector<KvBlockCopy> copies_;
  std::vector<KvBlockCopy> state_copies_;
  SteadyTime last_reported_;
  std::stop_source joining_;

  absl::Mutex mutex_;
  absl::Status closed_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Communicator> communicator_
      ABSL_GUARDED_BY(mutex_);  // set once; its methods need no lock

  StagePort port_;  // last: it may call Abort() at once
};

}  // namespace sluice
