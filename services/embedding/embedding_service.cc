#include "services/embedding/embedding_service.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "services/messages/wiring_message.h"
#include "services/process/log.h"
#include "services/security/local_address.h"
#include "services/stage/run_stream.h"

namespace sluice {

EmbeddingService::EmbeddingService(ServedModel model, EmbeddingTable* table, Backend* backend,
                                   Dialer* dialer, ProgressWatch* progress)
    : model_(std::move(model)),
      table_(table),
      backend_(backend),
      dialer_(dialer),
      ring_(*backend, table->row_width()),
      worker_(progress) {}

grpc::ServerBidiReactor<v1::EmbeddingRunRequest, v1::EmbeddingRunResponse>* EmbeddingService::Run(
    grpc::CallbackServerContext* context) {
  return ServeRunStream<EmbeddingSession, v1::EmbeddingRunRequest, v1::EmbeddingRunResponse>(
      *context, [this, orchestrator = OrchestratorOf(*context)](const v1::EmbeddingOpen& open,
                                                                Stream& stream) {
        return Open(orchestrator, open, stream);
      });
}

absl::StatusOr<std::shared_ptr<EmbeddingSession>> EmbeddingService::Open(
    const std::string& orchestrator, const v1::EmbeddingOpen& open, Stream& stream) {
  const absl::StatusOr<WiringIdentity> wiring = WiringToOpen(open, model_.fingerprint);
  if (!wiring.ok()) return wiring.status();
  absl::StatusOr<std::shared_ptr<grpc::Channel>> next_stage =
      dialer_->Dial(open.next_stage(), Role::kShard);
  if (!next_stage.ok()) return next_stage.status();
  absl::StatusOr<std::shared_ptr<grpc::Channel>> sampler =
      dialer_->Dial(open.sampler(), Role::kSampler);
  if (!sampler.ok()) return sampler.status();
  auto session = std::make_shared<EmbeddingSession>(
      open, *wiring,
      EmbeddingSession::Peers{
          .next_stage = *std::move(next_stage),
          .sampler = *std::move(sampler),
          .sampler_lane = IsUnixAddress(open.sampler()) ? LaneUse::kOffered : LaneUse::kNone},
      stream.shared_from_this(), *table_, *backend_, ring_, [this] {
        ++num_steps_;
        worker_.NoteStep();
      });
  const absl::Status status = worker_.Switch(orchestrator, open.epoch(), session);
  if (!status.ok()) return status;
  Log(LogLevel::kInfo, "embedding", "epoch-opened",
      {{"epoch", open.epoch()}, {"next_stage", open.next_stage()}});
  return session;
}

grpc::ServerUnaryReactor* EmbeddingService::GetInfo(grpc::CallbackServerContext* context,
                                                    const v1::GetEmbeddingInfoRequest*,
                                                    v1::GetEmbeddingInfoResponse* response) {
  response->set_model_name(model_.name);
  response->set_model_fingerprint(model_.fingerprint);
  response->set_weights_digest(model_.weights_digest);
  response->set_vocabulary_size(static_cast<int32_t>(table_->vocab_size()));
  response->set_hidden_size(static_cast<int32_t>(table_->hidden_size()));
  response->set_epoch(worker_.epoch());
  response->set_num_steps(num_steps_);
  response->set_weight_bytes(table_->weight_bytes());
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

}  // namespace sluice
