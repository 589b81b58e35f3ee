// The embedding service in one epoch. For each step: token ids to hidden rows for the first shard
// stage. Tokens that a plan does not know yet come from the sampler.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "kernels/backend.h"
#include "services/embedding/embedding_table.h"
#include "services/model/adapter_library.h"
#include "services/stage/stage.h"
#include "services/stage/stage_port.h"
#include "services/stage/stage_worker.h"

namespace sluice {

class EmbeddingSession final : public StageSession {
 public:
  // Borrows table, adapters, backend and what the peers borrow.
  EmbeddingSession(const StageOpening& opening, EmbeddingTable& table, AdapterLibrary& adapters,
                   Backend& backend, StagePeers peers);

  void AddPlan(v1::StageRunRequest request) override { port_.AddPlan(std::move(request)); }
  void Run() override { port_.Finish(Serve()); }
  void Close(const absl::Status& reason) override { port_.Close(reason); }

 private:
  absl::Status Serve();
  absl::Status Execute(v1::StageExecute& step);
  // Waits for the tokens that the plan names by step and row.
  absl::Status FillIn(uint64_t step_id, v1::EmbeddingExecute& plan);
  // How long stages have computed that its rows waited for (PushStep.computed_ns), without this
  // one.
  std::vector<uint64_t> ComputedFor(const v1::EmbeddingExecute& plan);

  EmbeddingTable& table_;
  AdapterLibrary& adapters_;
  const std::function<void()> on_step_;
  StagePort port_;
};

}  // namespace sluice
