#include "services/shard/shard_server.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/common/log.h"
#include "services/model/digest/model_digest.h"
#include "services/model/identity.h"
#include "services/model/memory_check.h"
#include "services/model/memory_plan.h"
#include "services/model/model_check.h"
#include "services/model/model_config.h"
#include "services/model/progress.h"

namespace sluice {
absl::StatusOr<std::unique_ptr<ShardServer>> ShardServer::Start(const ShardServerOptions& options,
                                                                Dialer* dialer) {
  // The stage before: the embedding, or shards.
  const RoleSet pushers = {options.placement.stage == 0 ? Role::kEmbedding : Role::kShard};
  const absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> credentials =
      PipelineServerCredentials(options.address, options.tls, Role::kShard, pushers);
  if (!credentials.ok()) return credentials.status();
  absl::StatusOr<ModelIdentity> identity = IdentifyModel(options.model, options.overrides);
  if (!identity.ok()) return identity.status();
  const absl::StatusOr<ModelConfig> config = LoadModelConfig(options.model, options.overrides);
  if (!config.ok()) return config.status();
  const absl::StatusOr<ShardPlan> plan = MakeShardPlan(*config, options.placement);
  if (!plan.ok()) return plan.status();
  absl::StatusOr<std::vector<std::string>> odd = CheckModelFiles(options.model, *config);
  if (!odd.ok()) return odd.status();
  // Of all shards, one says it.
  const bool is_first = options.placement.stage == 0 && options.placement.rank == 0;
  for (const std::string& what : is_first ? *odd : std::vector<std::string>()) {
    Log(LogLevel::kWarning, "shard", "odd-model", {{"model", options.model}, {"what", what}});
  }
  Progress progress(absl::StrCat("loading layers ", plan->layers.begin, " to ",
                                 plan->layers.end - 1, " of ", identity->name));
  const absl::StatusOr<WeightSource> source = WeightSource::Open(options.model, *config, &progress);
  if (!source.ok()) return source.status();
  if (options.device.device.kind == DeviceKind::kCpu) {
    const absl::Status fits =
        CheckFitsHost(*source, options.shard.weights, [&](WeightFormat format) {
          return KeptMemory{
              .who = absl::StrCat("shard ", plan->placement.stage, "-", plan->placement.rank),
              .weight_bytes = ShardBytes(*config, *plan, format),
              .kv_bytes = options.shard.kv_cache_bytes};
        });
    if (!fits.ok()) return fits;
  }
  progress.Expect(source->BytesOf(*plan));

  auto result = std::unique_ptr<ShardServer>(new ShardServer());
  absl::StatusOr<std::unique_ptr<Backend>> backend =
      MakeBackend(options.device, [](const std::string& reason) {
        Log(LogLevel::kWarning, "shard", "slower-instructions", {{"reason", reason}});
      });
  if (!backend.ok()) return backend.status();
  result->backend_ = *std::move(backend);
  absl::StatusOr<std::unique_ptr<ShardModel>> model =
      ShardModel::Load(*config, *plan, *source, options.shard, *result->backend_);
  if (!model.ok()) return model.status();
  result->model_ = *std::move(model);
  const absl::StatusOr<std::string> digest = WeightsDigest(options.model);
  if (!digest.ok()) return digest.status();
  result->progress_ = WatchProgress("shard", options.hang_timeout);
  result->service_ = std::make_unique<ShardService>(
      ShardServiceOptions{.model_name = identity->name,
                          .model_fingerprint = identity->fingerprint,
                          .weights_digest = *digest,
                          .plan = *plan,
                          .hidden_size = config->hidden_size,
                          .step_timeout = options.shard.step_timeout,
                          .communicator_address = options.communicator_address,
                          .communicator_interface = options.communicator_interface,
                          .tls = options.tls,
                          .trusted_network = options.trusted_network},
      result->model_.get(), result->backend_.get(), dialer, result->progress_.get());
  absl::StatusOr<std::unique_ptr<Server>> server =
      Server::Start({.address = options.address,
                     .credentials = *credentials,
                     .services = {result->service_.get(), result->service_->activations()},
                     .names = {v1::ShardService::service_full_name()},
                     .progress = result->progress_.get(),
                     .keepalive = options.hang_timeout / 2});
  if (!server.ok()) return server.status();
  result->server_ = *std::move(server);
  result->server_->SetServing(true);
  return result;
}

}  // namespace sluice
