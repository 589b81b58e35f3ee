#include "services/sampler/sampler_server.h"

#include <optional>
#include <utility>

#include "services/model/adapter_library.h"
#include "services/model/memory_plan.h"
#include "services/sampler/sampler.h"
#include "services/sampler/sampler_stage.h"
#include "services/stage/stage_service.h"

namespace sluice {
namespace {

struct Parts {
  std::unique_ptr<Sampler> sampler;
  std::optional<AdapterLibrary> adapters;
  std::optional<SamplerStage> stage;
  std::optional<StageService> service;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ModelServer>> StartSamplerServer(const ModelServerOptions& options) {
  absl::StatusOr<std::unique_ptr<ModelServer>> server =
      ModelServer::Open(options, Role::kSampler, {Role::kShard});
  if (!server.ok()) return server.status();
  ModelServer& opened = **server;
  const ModelConfig& config = opened.config();
  absl::Status status = opened.OpenWeights(
      {.name = "the head",
       .read =
           [&config](const WeightSource& weights) {
             uint64_t bytes = 0;
             for (const TensorId tensor : TensorsOutsideLayers(config)) {
               if (!IsOfTheEmbedding(tensor)) bytes += weights.BytesOf(tensor);
             }
             return bytes;
           },
       .kept =
           [&config](WeightFormat format) {
             return KeptMemory{.who = "the head", .weight_bytes = HeadBytes(config, format)};
           }});
  if (!status.ok()) return status;
  const auto parts = std::make_shared<Parts>();
  absl::StatusOr<std::unique_ptr<Sampler>> sampler =
      Sampler::Load(config, opened.weights(), options.weights, opened.backend());
  if (!sampler.ok()) return sampler.status();
  parts->sampler = *std::move(sampler);
  if (status = opened.Identify(); !status.ok()) return status;
  parts->adapters.emplace(options.model, config);
  SamplerStage& stage = parts->stage.emplace(parts->sampler.get(), &*parts->adapters,
                                             &opened.backend(), opened.progress());
  parts->service.emplace(opened.model(), &stage, opened.progress());
  status = opened.Serve(parts, {&*parts->service, &stage, stage.chosen_tokens()},
                        v1::StageService::service_full_name());
  if (!status.ok()) return status;
  return server;
}

}  // namespace sluice
