#include "services/sampler/sampler_server.h"

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
absl::StatusOr<std::unique_ptr<SamplerServer>> SamplerServer::Start(
    const SamplerServerOptions& options) {
  const absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> credentials =
      PipelineServerCredentials(options.address, options.tls, Role::kSampler, {Role::kShard});
  if (!credentials.ok()) return credentials.status();
  absl::StatusOr<ModelIdentity> identity = IdentifyModel(options.model, options.overrides);
  if (!identity.ok()) return identity.status();
  const absl::StatusOr<ModelConfig> config = LoadModelConfig(options.model, options.overrides);
  if (!config.ok()) return config.status();
  Progress progress(absl::StrCat("loading the head of ", identity->name));
  const absl::StatusOr<WeightSource> source = WeightSource::Open(options.model, *config, &progress);
  if (!source.ok()) return source.status();
  uint64_t bytes = source->BytesOf(ModelTensor::kFinalNorm) + source->BytesOf(ModelTensor::kHead);
  if (config->norm_bias) bytes += source->BytesOf(ModelTensor::kFinalNormBias);
  if (options.device.device.kind == DeviceKind::kCpu) {
    const absl::Status fits = CheckFitsHost(*source, options.weights, [&](WeightFormat format) {
      return KeptMemory{.who = "the head", .weight_bytes = HeadBytes(*config, format)};
    });
    if (!fits.ok()) return fits;
  }
  progress.Expect(bytes);

  auto result = std::unique_ptr<SamplerServer>(new SamplerServer());
  absl::StatusOr<std::unique_ptr<Backend>> backend =
      MakeBackend(options.device, [](const std::string& reason) {
        Log(LogLevel::kWarning, "sampler", "slower-instructions", {{"reason", reason}});
      });
  if (!backend.ok()) return backend.status();
  result->backend_ = *std::move(backend);
  absl::StatusOr<std::unique_ptr<Sampler>> sampler =
      Sampler::Load(*config, *source, options.weights, *result->backend_);
  if (!sampler.ok()) return sampler.status();
  result->sampler_ = *std::move(sampler);
  const absl::StatusOr<std::string> digest = WeightsDigest(options.model);
  if (!digest.ok()) return digest.status();
  result->progress_ = WatchProgress("sampler", options.hang_timeout);
  result->service_ = std::make_unique<SamplerService>(
      SamplerService::Model{identity->name, identity->fingerprint, *digest}, result->sampler_.get(),
      result->backend_.get(), result->progress_.get());
  absl::StatusOr<std::unique_ptr<Server>> server =
      Server::Start({.address = options.address,
                     .credentials = *credentials,
                     .services = {result->service_.get(), result->service_->activations(),
                                  result->service_->chosen_tokens()},
                     .names = {v1::SamplerService::service_full_name()},
                     .progress = result->progress_.get(),
                     .keepalive = options.hang_timeout / 2});
  if (!server.ok()) return server.status();
  result->server_ = *std::move(server);
  result->server_->SetServing(true);
  return result;
}

}  // namespace sluice
