// The gateway as a whole: the HTTP server, the APIs it speaks, and the gRPC API behind them.
// Thread-safe once started.
#pragma once

#include <grpcpp/channel.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "services/common/steady_time.h"
#include "services/gateway/api/api_call.h"
#include "services/gateway/api/body_reader.h"
#include "services/gateway/backend/backend.h"
#include "services/gateway/batches/batch_service.h"
#include "services/gateway/budgets.h"
#include "services/gateway/http/memory_budget.h"
#include "services/gateway/http/origin_policy.h"
#include "services/gateway/http/server.h"
#include "services/gateway/models/model_directory.h"
#include "services/gateway/models/model_host.h"
#include "services/gateway/models/served_model.h"
#include "services/gateway/page/page.h"
#include "services/gateway/refused_calls.h"
#include "services/gateway/tool_calls/format.h"
#include "services/telemetry/tracer.h"

namespace sluice::gateway {

struct GatewayOptions {
  std::vector<ServedModelOptions> models;     // at least one; of several each has a name
  std::shared_ptr<grpc::Channel> model_host;  // of models that sleep; null: none does
  std::string listen = "127.0.0.1:8080";      // see http::ServerOptions
  int num_threads = 1;
  std::string tls_certificate;  // PEM files; HTTPS where set
  std::string tls_key;
  // The web origin whose pages may call the APIs besides the server's own, such as
  // "https://example.org", or "*" for any; none where empty.
  std::string cors_origin;
  // Names that clients may call it by besides addresses and localhost, as http::OriginPolicy has
  // them; without any, every name where it listens beyond loopback.
  std::vector<std::string> allowed_hosts;
  // How calls of tools are found in what a model writes; as its chat template tells where unset.
  std::optional<ToolFormat> tool_format;
  PageOptions page;
  // Without a folder there are no files and batches.
  BatchOptions batches;
  // As far as the next two allow.
  http::Limits limits;
  uint64_t memory_bytes = uint64_t{1} << 30;  // that this process may take
  uint64_t max_descriptors = 1024;
  // For answers under way when the server ends.
  absl::Duration drain_timeout = absl::Seconds(1);
  BackendOptions backend;
  // Borrowed; reports calls to a trace collector. Null: no tracing.
  Tracer* tracer = nullptr;
};

class GatewayServer {
 public:
  // Statuses of http::Server::Start and of BatchService::Start.
  static absl::StatusOr<std::unique_ptr<GatewayServer>> Start(GatewayOptions options);
  // Accepts no more, and lets answers under way finish for `drain_timeout`.
  ~GatewayServer();

  const std::string& address() const { return server_->address(); }
  // Whether a stranger can connect, and the loops run. Blocks, for `patience` at most.
  bool IsReachable(absl::Duration patience);

 private:
  explicit GatewayServer(GatewayOptions options);

  absl::Status StartBatches();
  std::vector<std::unique_ptr<ServedModel>> MakeModels();
  void AddRoutes(ServedModel& model);
  void ServeHealth(std::shared_ptr<http::Exchange> exchange);
  std::string MetricsText();
  http::ConnectionContext MakeConnectionContext();
  std::optional<http::Response> RefusalOf(const http::Request& request) const;
  void Admit(const std::shared_ptr<const http::Request>& head, http::Loop& loop,
             std::function<void(std::optional<http::Response>)> done);
  void CountRefused(const http::Request& request, http::Loop& loop);

  const GatewayOptions options_;
  BodyReader body_reader_;
  const std::unique_ptr<ModelHost> model_host_;  // null: no model sleeps
  ModelDirectory models_;
  const Budgets budgets_;
  const http::OriginPolicy origins_;
  http::MemoryBudget bodies_;
  RefusedCalls refused_calls_;
  std::unique_ptr<BatchService> batches_;  // null: there are none
  absl::Mutex mutex_;
  SteadyTime last_served_ ABSL_GUARDED_BY(mutex_);  // that an orchestrator said so
  std::unique_ptr<http::Server> server_;
};

}  // namespace sluice::gateway
