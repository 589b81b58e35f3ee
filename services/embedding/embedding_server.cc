#include "services/embedding/embedding_server.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "services/common/log.h"
#include "services/model/digest/model_digest.h"
#include "services/model/identity.h"
#include "services/model/memory_check.h"
#include "services/model/memory_plan.h"
#include "services/model/model_config.h"
#include "services/model/progress.h"

namespace sluice {
absl::StatusOr<std::unique_ptr<EmbeddingServer>> EmbeddingServer::Start(
    const EmbeddingServerOptions& options, Dialer* dialer) {
  const absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> credentials =
      PipelineServerCredentials(options.address, options.tls, Role::kEmbedding);
  if (!credentials.ok()) return credentials.status();
  absl::StatusOr<ModelIdentity> identity = IdentifyModel(options.model, options.overrides);
  if (!identity.ok()) return identity.status();
  const absl::StatusOr<ModelConfig> config = LoadModelConfig(options.model, options.overrides);
  if (!config.ok()) return config.status();
  Progress progress(absl::StrCat("loading the embedding of ", identity->name));
  const absl::StatusOr<WeightSource> source = WeightSource::Open(options.model, *config, &progress);
  if (!source.ok()) return source.status();
  uint64_t bytes = source->BytesOf(ModelTensor::kEmbedding);
  if (config->position == PositionKind::kLearned) bytes += source->BytesOf(ModelTensor::kPositions);
  if (options.device.device.kind == DeviceKind::kCpu) {
    const absl::Status fits = CheckFitsHost(*source, options.weights, [&](WeightFormat format) {
      return KeptMemory{.who = "the embedding table",
                        .weight_bytes = EmbeddingBytes(*config, format)};
    });
    if (!fits.ok()) return fits;
  }
  progress.Expect(bytes);

  auto result = std::unique_ptr<EmbeddingServer>(new EmbeddingServer());
  absl::StatusOr<std::unique_ptr<Backend>> backend =
      MakeBackend(options.device, [](const std::string& reason) {
        Log(LogLevel::kWarning, "embedding", "slower-instructions", {{"reason", reason}});
      });
  if (!backend.ok()) return backend.status();
  result->backend_ = *std::move(backend);
  absl::StatusOr<EmbeddingTable> table =
      EmbeddingTable::Load(*config, *source, options.weights, *result->backend_);
  if (!table.ok()) return table.status();
  result->table_ = std::make_unique<EmbeddingTable>(*std::move(table));
  const absl::StatusOr<std::string> digest = WeightsDigest(options.model);
  if (!digest.ok()) return digest.status();
  result->progress_ = WatchProgress("embedding", options.hang_timeout);
  result->service_ = std::make_unique<EmbeddingService>(
      EmbeddingService::Model{identity->name, identity->fingerprint, *digest}, result->table_.get(),
      result->backend_.get(), dialer, result->progress_.get());
  absl::StatusOr<std::unique_ptr<Server>> server =
      Server::Start({.address = options.address,
                     .credentials = *credentials,
                     .services = {result->service_.get()},
                     .names = {v1::EmbeddingService::service_full_name()},
                     .progress = result->progress_.get(),
                     .keepalive = options.hang_timeout / 2});
  if (!server.ok()) return server.status();
  result->server_ = *std::move(server);
  result->server_->SetServing(true);
  return result;
}

}  // namespace sluice
