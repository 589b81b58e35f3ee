// The embedding service in one epoch: plans in, hidden rows out to the first shard stage. Tokens
// that a plan does not know yet come from the sampler.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "kernels/backend.h"
#include "kernels/communicator/wiring_identity.h"
#include "services/embedding/embedding_table.h"
#include "services/lane/lane_inbox.h"
#include "services/rows/row_ring.h"
#include "services/rows/step_rows.h"
#include "services/stage/activations.h"
#include "services/stage/chosen_tokens.h"
#include "services/stage/stage_worker.h"
#include "services/streams/server_stream.h"
#include "sluice/v1/embedding.pb.h"

namespace sluice {

class EmbeddingSession final : public StageSession {
 public:
  using Stream = ServerStream<v1::EmbeddingRunRequest, v1::EmbeddingRunResponse>;

  // What it dials.
  struct Peers {
    std::shared_ptr<grpc::Channel> next_stage;
    std::shared_ptr<grpc::Channel> sampler;
    LaneUse sampler_lane = LaneUse::kNone;
  };

  // Borrows table, backend and the ring for its rows. `on_step` is called after every step.
  EmbeddingSession(const WiringIdentity& wiring, Peers peers, std::shared_ptr<Stream> stream,
                   EmbeddingTable& table, Backend& backend, RowRing& ring,
                   std::function<void()> on_step);

  void AddPlan(v1::EmbeddingRunRequest request) { plans_.Add(std::move(request)); }

  void Run() override;
  void Close(const absl::Status& reason) override;

 private:
  // Close(), but for the streams to other stages, one of which may be the one that calls.
  void Stop(const absl::Status& reason);
  absl::Status Open();
  absl::Status Serve();
  absl::Status Execute(v1::EmbeddingExecute& plan);
  // Waits for the tokens that the plan names by step and row.
  absl::Status FillIn(v1::EmbeddingExecute& plan);
  // How long stages have computed that its rows waited for (PushStep.computed_ns), without this
  // one.
  std::vector<uint64_t> ComputedFor(const v1::EmbeddingExecute& plan);

  const WiringIdentity wiring_;
  const std::shared_ptr<Stream> stream_;
  EmbeddingTable& table_;
  const std::function<void()> on_step_;
  StepRows rows_;
  LaneInbox<v1::EmbeddingRunRequest> plans_;
  // Last, because they may call Stop() at once.
  ChosenTokensFollower chosen_;
  ActivationsSender sender_;
};

}  // namespace sluice
