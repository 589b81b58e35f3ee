#include "services/model_server/model_server.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "services/model/digest/model_digest.h"
#include "services/model_server/backend_decorator.h"
#include "services/process/log.h"

namespace sluice {

absl::StatusOr<std::unique_ptr<ModelServer>> ModelServer::Open(const ModelServerOptions& options,
                                                               Role role, RoleSet pushers) {
  auto result = std::unique_ptr<ModelServer>(new ModelServer(options, role));
  auto credentials = PipelineServerCredentials(options.address, options.tls, role, pushers);
  if (!credentials.ok()) return credentials.status();
  result->credentials_ = *std::move(credentials);
  absl::StatusOr<ModelIdentity> identity = IdentifyModel(options.model, options.overrides);
  if (!identity.ok()) return identity.status();
  result->model_ = {.name = identity->name, .fingerprint = identity->fingerprint};
  absl::StatusOr<ModelConfig> config = LoadModelConfig(options.model, options.overrides);
  if (!config.ok()) return config.status();
  result->config_ = *std::move(config);
  return result;
}

// What a GGUF file's blocks become in memory, by format.
absl::Status ModelServer::LogKeptBlocks() const {
  const std::string stored = weights_->BlockFormats();
  if (stored.empty()) return absl::OkStatus();
  const absl::StatusOr<WeightFormat> wanted = weights_->Resolve(options_.weights);
  if (!wanted.ok()) return wanted.status();
  Log(LogLevel::kInfo, Name(role_), "block-formats",
      {{"stored", stored}, {"kept", weights_->KeptBlocks(*wanted)}});
  return absl::OkStatus();
}

absl::Status ModelServer::OpenWeights(const Part& part) {
  loading_ = std::make_unique<Progress>(absl::StrCat("loading ", part.name, " of ", model_.name));
  absl::StatusOr<WeightSource> weights =
      WeightSource::Open(options_.model, config_, loading_.get());
  if (!weights.ok()) return weights.status();
  weights_ = *std::move(weights);
  if (const absl::Status logged = LogKeptBlocks(); !logged.ok()) return logged;
  if (options_.device.device.kind == DeviceKind::kCpu) {
    const absl::Status fits = CheckFitsHost(*weights_, options_.weights, part.kept);
    if (!fits.ok()) return fits;
  }
  loading_->Expect(part.read(*weights_));
  DeviceOptions device = options_.device;
  device.on_gpu_unrecorded = [role = role_](const absl::Status& reason) {
    Log(LogLevel::kWarning, Name(role), "steps-unrecorded",
        {{"reason", std::string(reason.message())}});
  };
  absl::StatusOr<std::unique_ptr<Backend>> backend =
      MakeBackend(device, [this](const std::string& reason) {
        Log(LogLevel::kWarning, Name(role_), "slower-instructions", {{"reason", reason}});
      });
  if (!backend.ok()) return backend.status();
  backend_ = Decorate(*std::move(backend));
  progress_ = WatchProgress(Name(role_), options_.hang_timeout);
  return absl::OkStatus();
}

absl::Status ModelServer::Identify() {
  weights_.reset();
  loading_.reset();
  absl::StatusOr<std::string> digest = WeightsDigest(options_.model);
  if (!digest.ok()) return digest.status();
  model_.weights_digest = *std::move(digest);
  return absl::OkStatus();
}

absl::Status ModelServer::Serve(std::shared_ptr<void> parts, std::vector<grpc::Service*> services,
                                const std::string& name) {
  parts_ = std::move(parts);
  absl::StatusOr<std::unique_ptr<Server>> server =
      Server::Start({.address = options_.address,
                     .credentials = credentials_,
                     .services = std::move(services),
                     .names = {name},
                     .progress = progress_.get(),
                     .keepalive = options_.hang_timeout / 2});
  if (!server.ok()) return server.status();
  server_ = *std::move(server);
  server_->SetServing(true);
  return absl::OkStatus();
}

}  // namespace sluice
