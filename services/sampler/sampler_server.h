// The sampler service as a whole: loads final norm and head and serves them. Thread-safe once
// started.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kernels/device.h"
#include "services/common/progress_watch.h"
#include "services/common/running_service.h"
#include "services/common/transport.h"
#include "services/metrics/device_metrics.h"
#include "services/model/weights.h"
#include "services/sampler/sampler.h"
#include "services/sampler/sampler_service.h"

namespace sluice {

struct SamplerServerOptions {
  std::string model;  // folder
  ModelOverrides overrides;
  std::string address;
  TlsFiles tls;
  // Work that takes longer, and several times what its like has taken, hangs: see ProgressWatch.
  absl::Duration hang_timeout = absl::Seconds(2);
  WeightType weights = WeightType::kAuto;
  DeviceOptions device;
};

class SamplerServer final : public RunningService {
 public:
  // Errors of loading and of Server::Start.
  static absl::StatusOr<std::unique_ptr<SamplerServer>> Start(const SamplerServerOptions& options);

  Server& server() override { return *server_; }
  std::vector<std::shared_ptr<prometheus::Collectable>> metrics() override {
    return MetricsOfDevice(*backend_);
  }

 private:
  SamplerServer() = default;

  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Sampler> sampler_;
  std::unique_ptr<ProgressWatch> progress_;
  std::unique_ptr<SamplerService> service_;
  std::unique_ptr<Server> server_;  // last: calls use what is above
};

}  // namespace sluice
