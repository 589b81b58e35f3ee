// A server of a part of a model: what embedding, shards and sampler are alike in. It opens the
// model, makes the backend, and serves what its caller has loaded meanwhile. Thread-safe once it
// serves.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kernels/device/make_backend.h"
#include "services/metrics/device_metrics.h"
#include "services/model/identity.h"
#include "services/model/memory_check.h"
#include "services/model/model_config.h"
#include "services/model/progress.h"
#include "services/model/weights.h"
#include "services/rpc/running_service.h"
#include "services/security/credentials.h"
#include "services/watch/progress_watch.h"

namespace sluice {

struct ModelServerOptions {
  std::string model;  // folder
  ModelOverrides overrides;
  std::string address;
  TlsFiles tls;
  // Work that takes longer, and several times what its like has taken, hangs: see ProgressWatch.
  absl::Duration hang_timeout = absl::Seconds(2);
  WeightType weights = WeightType::kAuto;
  DeviceOptions device;
};

class ModelServer final : public RunningService {
 public:
  // Reads what the folder says of the model, no weights yet. `role` is whose it is, and its name in
  // the log; `pushers` may send it rows. Errors of credentials and configuration.
  static absl::StatusOr<std::unique_ptr<ModelServer>> Open(const ModelServerOptions& options,
                                                           Role role, RoleSet pushers = {});

  const ServedModel& model() const { return model_; }
  const ModelConfig& config() const { return config_; }

  struct Part {
    std::string name;                                       // such as "layers 0 to 11"
    absl::FunctionRef<uint64_t(const WeightSource&)> read;  // bytes of the files
    absl::FunctionRef<KeptMemory(WeightFormat)> kept;       // asked of what the host's memory keeps
  };
  // Opens the weights, of which `part` is to be loaded, and makes the backend. Errors of
  // WeightSource, CheckFitsHost and MakeBackend.
  absl::Status OpenWeights(const Part& part);

  // REQUIRES: OpenWeights() has succeeded.
  const WeightSource& weights() const { return *weights_; }
  Backend& backend() { return *backend_; }
  // Whose watch the services' work is.
  ProgressWatch* progress() { return progress_.get(); }

  // Once all is loaded: lets go of the files, and takes the digest that model() lacks until then.
  absl::Status Identify();

  // Serves. `parts` own the services and what they use, and live as long as
  // the server. `name` is what grpc.health.v1 answers for. Errors of Server::Start.
  absl::Status Serve(std::shared_ptr<void> parts, std::vector<grpc::Service*> services,
                     const std::string& name);

  Server& server() override { return *server_; }
  std::vector<std::shared_ptr<prometheus::Collectable>> metrics() override {
    return MetricsOfDevice(*backend_);
  }

 private:
  ModelServer(const ModelServerOptions& options, Role role) : options_(options), role_(role) {}

  absl::Status LogKeptBlocks() const;

  const ModelServerOptions options_;
  const Role role_;
  std::shared_ptr<grpc::ServerCredentials> credentials_;
  ServedModel model_;
  ModelConfig config_;
  std::unique_ptr<Progress> loading_;
  std::optional<WeightSource> weights_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<ProgressWatch> progress_;
  std::shared_ptr<void> parts_;
  std::unique_ptr<Server> server_;  // last: calls use what is above
};

}  // namespace sluice
