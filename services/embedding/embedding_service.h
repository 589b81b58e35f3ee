// The gRPC face of the embedding: decodes, hands to a session, encodes. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "kernels/backend.h"
#include "services/embedding/embedding_session.h"
#include "services/embedding/embedding_table.h"
#include "services/model/identity.h"
#include "services/rows/row_ring.h"
#include "services/rpc/transport.h"
#include "services/stage/stage_worker.h"
#include "sluice/v1/embedding.grpc.pb.h"

namespace sluice {

class EmbeddingService final : public v1::EmbeddingService::CallbackService {
 public:
  // Borrows everything but the model's description; without `progress` steps are not watched.
  EmbeddingService(ServedModel model, EmbeddingTable* table, Backend* backend, Dialer* dialer,
                   ProgressWatch* progress = nullptr);

  grpc::ServerBidiReactor<v1::EmbeddingRunRequest, v1::EmbeddingRunResponse>* Run(
      grpc::CallbackServerContext* context) override;
  grpc::ServerUnaryReactor* GetInfo(grpc::CallbackServerContext* context,
                                    const v1::GetEmbeddingInfoRequest* request,
                                    v1::GetEmbeddingInfoResponse* response) override;

 private:
  using Stream = EmbeddingSession::Stream;

  absl::StatusOr<std::shared_ptr<EmbeddingSession>> Open(const std::string& orchestrator,
                                                         const v1::EmbeddingOpen& open,
                                                         Stream& stream);

  const ServedModel model_;
  EmbeddingTable* const table_;
  Backend* const backend_;
  Dialer* const dialer_;
  RowRing ring_;  // touched by the worker's thread alone
  std::atomic<uint64_t> num_steps_ = 0;
  StageWorker worker_;  // last: its thread uses what is above
};

}  // namespace sluice
