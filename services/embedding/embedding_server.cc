#include "services/embedding/embedding_server.h"

#include <optional>
#include <utility>

#include "services/embedding/embedding_stage.h"
#include "services/embedding/embedding_table.h"
#include "services/model/adapter_library.h"
#include "services/model/memory_plan.h"
#include "services/stage/stage_service.h"

namespace sluice {
namespace {

struct Parts {
  std::optional<EmbeddingTable> table;
  std::optional<AdapterLibrary> adapters;
  std::optional<EmbeddingStage> stage;
  std::optional<StageService> service;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ModelServer>> StartEmbeddingServer(const ModelServerOptions& options,
                                                                  Dialer* dialer) {
  absl::StatusOr<std::unique_ptr<ModelServer>> server =
      ModelServer::Open(options, Role::kEmbedding);
  if (!server.ok()) return server.status();
  ModelServer& opened = **server;
  const ModelConfig& config = opened.config();
  absl::Status status =
      opened.OpenWeights({.name = "the embedding",
                          .read =
                              [&config](const WeightSource& weights) {
                                uint64_t bytes = 0;
                                for (const TensorId tensor : TensorsOutsideLayers(config)) {
                                  if (IsOfTheEmbedding(tensor)) bytes += weights.BytesOf(tensor);
                                }
                                return bytes;
                              },
                          .kept =
                              [&config](WeightFormat format) {
                                return KeptMemory{.who = "the embedding table",
                                                  .weight_bytes = EmbeddingBytes(config, format)};
                              }});
  if (!status.ok()) return status;
  const auto parts = std::make_shared<Parts>();
  absl::StatusOr<EmbeddingTable> table =
      EmbeddingTable::Load(config, opened.weights(), options.weights, opened.backend());
  if (!table.ok()) return table.status();
  parts->table.emplace(*std::move(table));
  if (status = opened.Identify(); !status.ok()) return status;
  parts->adapters.emplace(options.model, config);
  parts->stage.emplace(&*parts->table, &*parts->adapters, &opened.backend(), dialer);
  parts->service.emplace(opened.model(), &*parts->stage, opened.progress());
  status = opened.Serve(parts, {&*parts->service}, v1::StageService::service_full_name());
  if (!status.ok()) return status;
  return server;
}

}  // namespace sluice
