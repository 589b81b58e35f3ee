// The embedding service in one epoch: plans in, hidden rows out to the first shard stage.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "kernels/backend.h"
#include "services/common/activations.h"
#include "services/common/server_stream.h"
#include "services/common/stage_worker.h"
#include "services/common/step_rows.h"
#include "services/common/work_queue.h"
#include "services/embedding/embedding_table.h"
#include "sluice/v1/embedding.pb.h"

namespace sluice {

class EmbeddingSession final : public StageSession {
 public:
  using Stream = ServerStream<v1::EmbeddingRunRequest, v1::EmbeddingRunResponse>;

  // Borrows table and backend. `on_step` is called after every step.
  EmbeddingSession(uint64_t epoch, std::shared_ptr<grpc::Channel> next_stage,
                   std::shared_ptr<Stream> stream, EmbeddingTable& table, Backend& backend,
                   std::function<void()> on_step);

  void AddPlan(v1::EmbeddingExecute plan) { plans_.Add(std::move(plan)); }

  void Run() override;
  void Close(const absl::Status& reason) override;

 private:
  // Close(), but for the sender, which may be the one that calls.
  void Stop(const absl::Status& reason);
  absl::Status Serve();
  absl::Status Execute(const v1::EmbeddingExecute& plan);

  const uint64_t epoch_;
  const std::shared_ptr<Stream> stream_;
  EmbeddingTable& table_;
  const std::function<void()> on_step_;
  StepRows rows_;
  WorkQueue<v1::EmbeddingExecute> plans_;
  ActivationsSender sender_;  // last: it may call Stop() at once
};

}  // namespace sluice
