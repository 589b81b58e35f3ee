// A shard in one epoch. Rank 0 of a stage leads: it joins plans and rows, hands each step to the
// other ranks, and sends the result to the next stage. The other ranks follow.
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
#include "services/rows/row_ring.h"
#include "services/rows/step_rows.h"
#include "services/shard/block_tables.h"
#include "services/shard/shard_model.h"
#include "services/shard/step_clock.h"
#include "services/stage/activations.h"
#include "services/stage/ring_intake.h"
#include "services/stage/stage_worker.h"
#include "services/stage/step_joiner.h"
#include "services/streams/server_stream.h"
#include "sluice/v1/shard.pb.h"

namespace sluice {

// Meets the other ranks of the stage: blocks until all have joined, the deadline has passed or
// it is told to stop.
using JoinRanks = std::function<absl::StatusOr<std::unique_ptr<Communicator>>(
    Deadline deadline, const std::stop_token& stop)>;

// What the sessions of a shard work with; borrowed.
struct ShardParts {
  ShardModel& model;
  Backend& backend;
  ActivationsReceiver& receiver;
  RowRing& ring;  // for rows to the next stage
  StepClock& clock;
  int64_t hidden_size;
  absl::Duration step_timeout;
  bool is_last_stage;
  int num_stages;
  std::function<void()> on_step;
};

class ShardSession : public StageSession {
 public:
  using Stream = ServerStream<v1::ShardRunRequest, v1::ShardRunResponse>;

  ShardSession(const WiringIdentity& wiring, const ShardParts& parts, JoinRanks join,
               std::shared_ptr<Stream> stream);

  virtual void AddPlan(v1::ShardRunRequest request) = 0;

  void Run() final;
  void Close(const absl::Status& reason) override;

 protected:
  // Serves steps until one fails, or until closed.
  virtual absl::Status Serve(Communicator& communicator) = 0;

  // Makes the step's block copies and runs this rank's layers over the step in rows().
  absl::Status Forward(const v1::ShardExecute& plan);
  // Offers the lane of `plans`, where there are any.
  using Plans = LaneInbox<v1::ShardRunRequest>;
  void SendOpened(const Plans* plans = nullptr);
  // Marks the step's beginning and end; the end is told to the orchestrator now and then.
  void StepBegins(const v1::ShardExecute& plan, const v1::PushStep& rows);
  void StepEnds();
  // Of how long stages computed for the rows, what others have since this one did.
  absl::Span<const uint64_t> ComputedByOthers(const v1::PushStep& rows) const;

  const WiringIdentity& wiring() const { return wiring_; }
  uint64_t epoch() const { return wiring_.epoch; }
  const ShardParts& parts() const { return parts_; }
  StepRows& rows() { return rows_; }
  SteadyTime step_began() const { return step_began_; }

 private:
  absl::Status JoinAndServe();

  const WiringIdentity wiring_;
  const ShardParts parts_;
  const JoinRanks join_;
  const std::shared_ptr<Stream> stream_;
  StepRows rows_;
  BlockTables tables_;
  std::vector<ShardSegment> segments_;
  std::vector<KvBlockCopy> copies_;
  SteadyTime step_began_;
  SteadyTime last_told_;  // of the times
  std::stop_source joining_;

  absl::Mutex mutex_;
  absl::Status closed_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Communicator> communicator_
      ABSL_GUARDED_BY(mutex_);  // set once; its methods need no lock
};

// Rank 0.
class LeadSession final : public ShardSession {
 public:
  LeadSession(const WiringIdentity& wiring, const ShardParts& parts, JoinRanks join,
              std::shared_ptr<Stream> stream, std::shared_ptr<grpc::Channel> next_stage);

  void AddPlan(v1::ShardRunRequest request) override { steps_->plans().Add(std::move(request)); }
  void Close(const absl::Status& reason) override;

 private:
  // Close(), but for the sender, which may be the one that calls.
  void Stop(const absl::Status& reason);
  absl::Status Serve(Communicator& communicator) override;
  absl::Status Execute(Communicator& communicator, const v1::ShardExecute& plan, v1::PushStep& step,
                       RingIntake& ring);
  // Hands the step to the other ranks; with it, once, the ring that all are to read.
  absl::Status HandOn(Communicator& communicator, const v1::ShardExecute& plan, v1::PushStep& step,
                      RingIntake& ring);

  using Joiner = StepJoiner<v1::ShardRunRequest>;
  const std::shared_ptr<Joiner> steps_;  // shared with the receiver
  ActivationsSender sender_;             // last: it may call Stop() at once
};

// The other ranks.
class FollowSession final : public ShardSession {
 public:
  using ShardSession::ShardSession;

  void AddPlan(v1::ShardRunRequest request) override;

 private:
  absl::Status Serve(Communicator& communicator) override;
};

}  // namespace sluice
