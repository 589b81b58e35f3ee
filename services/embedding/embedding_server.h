// The embedding service as a whole: loads the model's table and serves it. Thread-safe once
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
#include "services/embedding/embedding_service.h"
#include "services/embedding/embedding_table.h"
#include "services/metrics/device_metrics.h"
#include "services/model/weights.h"

namespace sluice {

struct EmbeddingServerOptions {
  std::string model;  // folder
  ModelOverrides overrides;
  std::string address;
  TlsFiles tls;
  // Work that takes longer, and several times what its like has taken, hangs: see ProgressWatch.
  absl::Duration hang_timeout = absl::Seconds(2);
  WeightType weights = WeightType::kAuto;
  DeviceOptions device;
};

class EmbeddingServer final : public RunningService {
 public:
  // Borrows the dialer, with which it reaches the next stage. Errors of loading and of
  // Server::Start.
  static absl::StatusOr<std::unique_ptr<EmbeddingServer>> Start(
      const EmbeddingServerOptions& options, Dialer* dialer);

  Server& server() override { return *server_; }
  std::vector<std::shared_ptr<prometheus::Collectable>> metrics() override {
    return MetricsOfDevice(*backend_);
  }

 private:
  EmbeddingServer() = default;

  std::unique_ptr<Backend> backend_;
  std::unique_ptr<EmbeddingTable> table_;
  std::unique_ptr<ProgressWatch> progress_;
  std::unique_ptr<EmbeddingService> service_;
  std::unique_ptr<Server> server_;  // last: calls use what is above
};

}  // namespace sluice
