#include "services/shard/shard_server.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/model/adapter_library.h"
#include "services/model/memory_plan.h"
#include "services/model/model_check.h"
#include "services/model/published_model.h"
#include "services/process/log.h"
#include "services/shard/shard_stage.h"
#include "services/stage/stage_service.h"

namespace sluice {
namespace {

struct Parts {
  std::unique_ptr<ShardModel> model;
  std::optional<AdapterLibrary> adapters;
  std::optional<ShardStage> stage;
  std::optional<StageService> service;
};

// The stage before: the embedding, or shards.
RoleSet PushersOf(const ShardPlacement& placement) {
  return {placement.stage == 0 ? Role::kEmbedding : Role::kShard};
}

// Of all shards, one says what is odd.
absl::Status CheckFiles(const std::string& folder, const ModelConfig& config,
                        const ShardPlacement& placement) {
  const absl::StatusOr<std::vector<std::string>> odd = CheckModelFiles(folder, config);
  if (!odd.ok()) return odd.status();
  if (placement.stage != 0 || placement.rank != 0) return absl::OkStatus();
  if (const std::string kept = DescribeQuantization(config); !kept.empty()) {
    Log(LogLevel::kInfo, "shard", "quantized-model", {{"model", folder}, {"weights", kept}});
  }
  for (const std::string& what : *odd) {
    Log(LogLevel::kWarning, "shard", "odd-model", {{"model", folder}, {"what", what}});
  }
  return absl::OkStatus();
}

ShardStageOptions StageOptions(const ShardServerOptions& options, const ModelServer& server,
                               const ShardPlan& plan) {
  return {.plan = plan,
          .row_width = server.config().row_width(),
          .step_timeout = options.shard.step_timeout,
          .communicator_address = options.communicator_address,
          .communicator_interface = options.communicator_interface,
          .tls = options.server.tls,
          .trusted_network = options.trusted_network};
}

absl::Status OpenWeights(ModelServer& server, const ShardPlan& plan, uint64_t kv_bytes) {
  return server.OpenWeights(
      {.name = absl::StrCat("layers ", plan.layers.begin, " to ", plan.layers.end - 1),
       .read = [&plan](const WeightSource& weights) { return weights.BytesOf(plan); },
       .kept =
           [&](WeightFormat format) {
             return KeptMemory{
                 .who = absl::StrCat("shard ", plan.placement.stage, "-", plan.placement.rank),
                 .weight_bytes = ShardBytes(server.config(), plan, format),
                 .kv_bytes = kv_bytes};
           }});
}

}  // namespace

absl::StatusOr<std::unique_ptr<ModelServer>> StartShardServer(const ShardServerOptions& options,
                                                              Dialer* dialer) {
  absl::StatusOr<std::unique_ptr<ModelServer>> server =
      ModelServer::Open(options.server, Role::kShard, PushersOf(options.placement));
  if (!server.ok()) return server.status();
  const ModelConfig& config = (*server)->config();
  const absl::StatusOr<ShardPlan> plan = MakeShardPlan(config, options.placement);
  if (!plan.ok()) return plan.status();
  absl::Status status = CheckFiles(options.server.model, config, options.placement);
  if (status.ok()) status = OpenWeights(**server, *plan, options.shard.kv_cache_bytes);
  if (!status.ok()) return status;
  Backend& backend = (*server)->backend();
  ShardModelOptions shard = options.shard;
  shard.weights = options.server.weights;
  const auto parts = std::make_shared<Parts>();
  absl::StatusOr<std::unique_ptr<ShardModel>> model =
      ShardModel::Load(config, *plan, (*server)->weights(), shard, backend);
  if (!model.ok()) return model.status();
  parts->model = *std::move(model);
  if (status = (*server)->Identify(); !status.ok()) return status;
  parts->adapters.emplace(options.server.model, config);
  ShardStage& stage = parts->stage.emplace(StageOptions(options, **server, *plan),
                                           parts->model.get(), &*parts->adapters, &backend, dialer);
  parts->service.emplace((*server)->model(), &stage, (*server)->progress());
  status =
      (*server)->Serve(parts, {&*parts->service, &stage}, v1::StageService::service_full_name());
  if (!status.ok()) return status;
  return server;
}

}  // namespace sluice
