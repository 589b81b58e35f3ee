// The embedding service in one epoch. For each step: token ids to hidden rows for the first shard
// stage. Tokens that a plan does not know yet come from the sampler.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "kernels/backend.h"
#include "kernels/communicator/wiring_identity.h"
#include "services/embedding/embedding_table.h"
#include "services/rows/row_ring.h"
#include "services/stage/stage_port.h"
#include "services/stage/stage_worker.h"
#include "sluice/v1/embedding.pb.h"

namespace sluice {

class EmbeddingSession final : public StageSession {
 public:
  using Port = StagePort<v1::EmbeddingRunRequest, v1::EmbeddingRunResponse>;
  using Stream = Port::Stream;

  // What it dials.
  struct Peers {
    std::shared_ptr<grpc::Channel> next_stage;
    std::shared_ptr<grpc::Channel> sampler;
    LaneUse sampler_lane = LaneUse::kNone;
  };

  // Borrows table, backend and the ring for its rows. `on_step` is called after every step.
  EmbeddingSession(const v1::EmbeddingOpen& open, const WiringIdentity& wiring, Peers peers,
                   std::shared_ptr<Stream> stream, EmbeddingTable& table, Backend& backend,
                   RowRing& ring, std::function<void()> on_step);

  void AddPlan(v1::EmbeddingRunRequest request) { port_.AddPlan(std::move(request)); }

  void Run() override;
  void Close(const absl::Status& reason) override { port_.Close(reason); }

 private:
  absl::Status Serve();
  absl::Status Execute(v1::EmbeddingExecute& plan);
  // Waits for the tokens that the plan names by step and row.
  absl::Status FillIn(v1::EmbeddingExecute& plan);
  // How long stages have computed that its rows waited for (PushStep.computed_ns), without this
  // one.
  std::vector<uint64_t> ComputedFor(const v1::EmbeddingExecute& plan);

  EmbeddingTable& table_;
  const std::function<void()> on_step_;
  Port port_;
};

}  // namespace sluice
