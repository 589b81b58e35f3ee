// The shard service as a whole: loads its slice of the model and serves it. Thread-safe once
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
#include "services/model/shard_plan.h"
#include "services/shard/shard_model.h"
#include "services/shard/shard_service.h"

namespace sluice {

struct ShardServerOptions {
  std::string model;  // folder
  ModelOverrides overrides;
  std::string address;
  TlsFiles tls;
  // Work that takes longer, and several times what its like has taken, hangs: see ProgressWatch.
  absl::Duration hang_timeout = absl::Seconds(2);
  ShardPlacement placement;
  ShardModelOptions shard;
  DeviceOptions device;
  // As in ShardServiceOptions.
  std::string communicator_address = "127.0.0.1";
  std::string communicator_interface;
  bool trusted_network = false;
};

class ShardServer final : public RunningService {
 public:
  // Borrows the dialer, with which it reaches the next stage. Errors of MakeShardPlan, loading and
  // Server::Start.
  static absl::StatusOr<std::unique_ptr<ShardServer>> Start(const ShardServerOptions& options,
                                                            Dialer* dialer);

  Server& server() override { return *server_; }
  std::vector<std::shared_ptr<prometheus::Collectable>> metrics() override {
    return MetricsOfDevice(*backend_);
  }

 private:
  ShardServer() = default;

  std::unique_ptr<Backend> backend_;
  std::unique_ptr<ShardModel> model_;
  std::unique_ptr<ProgressWatch> progress_;
  std::unique_ptr<ShardService> service_;
  std::unique_ptr<Server> server_;  // last: calls use what is above
};

}  // namespace sluice
