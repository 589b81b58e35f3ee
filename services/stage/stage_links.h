// A stage's connections to other stages in one epoch: hidden rows in and out, chosen tokens in and
// out. Which of them a kind of stage has, StagePeers says.
#pragma once

#include <grpcpp/channel.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/backend.h"
#include "kernels/communicator/wiring_identity.h"
#include "services/common/steady_time.h"
#include "services/rows/row_ring.h"
#include "services/rows/step_rows.h"
#include "services/stage/activations.h"
#include "services/stage/chosen_tokens.h"
#include "services/stage/open_budget.h"
#include "services/stage/row_intake.h"

namespace sluice {

// What a stage is connected to. Everything but the channels is borrowed.
struct StagePeers {
  // Where the stage before dials in; null: no rows come in.
  ActivationsReceiver* receiver = nullptr;
  RingOpening ring_opening = RingOpening::kOnLoad;
  // Where rows go; null: nowhere. They go by `ring`, where that is set and the next stage takes it.
  std::shared_ptr<grpc::Channel> next_stage;
  RowRing* ring = nullptr;
  // Where the embedding follows which tokens are chosen; null: this stage chooses none.
  ChosenTokensPublisher* publisher = nullptr;
  // The sampler, whose chosen tokens are followed; null: they are not.
  std::shared_ptr<grpc::Channel> sampler;
  LaneUse sampler_lane = LaneUse::kNone;
};

// Memory for the rows of the step in hand.
struct StageMemory {
  Backend& backend;
  int64_t hidden_size;
};

class StageLinks {
 public:
  // Dials the peers at once. `on_lost` is called from any thread when a stream to another stage
  // ends by itself, possibly before the constructor returns; not after the destructor does.
  StageLinks(const WiringIdentity& wiring, const StageMemory& memory, StagePeers peers,
             std::function<void(const absl::Status&)> on_lost);

  StageLinks(const StageLinks&) = delete;
  StageLinks& operator=(const StageLinks&) = delete;

  const WiringIdentity& wiring() const { return wiring_; }

  // ---- The thread that computes ----

  // The rows of the step in hand.
  StepRows& rows() { return rows_; }

  // Waits for a step's rows: statuses of RowIntake::RowsOf. Load() brings them into rows().
  // REQUIRES for what follows: the peers have a receiver.
  absl::StatusOr<v1::PushStep> RowsOf(uint64_t step_id) { return intake_->RowsOf(step_id); }
  absl::Status Load(const v1::PushStep& step) { return intake_->Load(step, rows_); }
  // All work on the loaded rows is done.
  void Done() { intake_->Done(); }
  RowIntake& intake() { return *intake_; }

  // A step's result. `computed_ns` says how long other stages computed for it
  // (PushStep.computed_ns), `began` when this one started.
  struct Output {
    uint64_t step_id = 0;
    std::optional<absl::Span<const int32_t>> indices = std::nullopt;  // of rows(); default: all
    absl::Span<const uint64_t> computed_ns;
    SteadyTime began;
  };
  // Waits for the backend's work, and sends the rows to the next stage. Statuses of
  // StepRows::Store. REQUIRES: the peers have a next stage.
  absl::Status Send(const Output& output);

  // Chosen tokens in: see ChosenTokensFollower. REQUIRES: the peers have a sampler.
  absl::Status TokensOf(uint64_t step_id, int32_t first_row, absl::Span<int32_t> tokens) {
    return follower_->TokensOf(step_id, first_row, tokens);
  }
  std::vector<uint64_t> ComputedFor(uint64_t step_id) { return follower_->ComputedFor(step_id); }
  // And out. REQUIRES: the peers have a publisher.
  void Publish(v1::Chosen chosen) { publisher_->Publish(wiring_.epoch, std::move(chosen)); }

 protected:
  // Waits until the dialled peers have accepted the wiring, then accepts those that dial in.
  // DEADLINE_EXCEEDED, or how a peer was lost.
  absl::Status OpenLinks(const OpenBudget& budget);
  // Ends what peers have dialled and wakes who waits for rows. Any thread.
  void Stop(const absl::Status& reason);
  // Ends what was dialled. Any thread, but not from within `on_lost`.
  void Cancel();
  // No step follows: closes the ring of the stage before.
  void Release();

 private:
  const WiringIdentity wiring_;
  StepRows rows_;
  ChosenTokensPublisher* const publisher_;
  std::optional<RowIntake> intake_;
  // Last, because they may call `on_lost` at once.
  std::optional<ChosenTokensFollower> follower_;
  std::optional<ActivationsSender> sender_;
};

}  // namespace sluice
