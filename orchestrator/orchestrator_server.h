// The orchestrator as a whole: engine and public API over a replica's processes. Thread-safe once
// started.
#pragma once

#include <prometheus/registry.h>

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "orchestrator/adapters/adapter_folder.h"
#include "orchestrator/adapters/adapter_registry.h"
#include "orchestrator/api/embed_service.h"
#include "orchestrator/api/generation_service.h"
#include "orchestrator/api/inspect_service.h"
#include "orchestrator/api/kv_event_service.h"
#include "orchestrator/api/session_service.h"
#include "orchestrator/constraints/constraint_preparer.h"
#include "orchestrator/drafts/draft_mode.h"
#include "orchestrator/drafts/draft_policy.h"
#include "orchestrator/engine/engine.h"
#include "orchestrator/inspect/inspector_runner.h"
#include "orchestrator/kv_events/kv_event_publisher.h"
#include "orchestrator/metrics/request_metrics.h"
#include "orchestrator/metrics/step_metrics.h"
#include "orchestrator/pipeline/topology.h"
#include "orchestrator/text/tokenizer_client.h"
#include "orchestrator/text/tokenizer_watch.h"
#include "orchestrator/tracing/request_tracer.h"
#include "services/model/weights.h"
#include "services/options/option_values.h"
#include "services/rpc/running_service.h"
#include "services/rpc/transport.h"
#include "services/security/authenticator.h"
#include "services/security/credentials.h"
#include "services/telemetry/tracer.h"

namespace sluice {

// A smaller model that drafts for the served one. One shard, which holds all its layers.
struct DraftModelPlace {
  std::string model;                      // folder, as OrchestratorServerOptions'
  std::string embedding, shard, sampler;  // addresses
};

struct OrchestratorServerOptions {
  // Folder. Read: the configuration, the weights' headers, and the tokenizer's files for their
  // digest.
  std::string model;
  ModelOverrides overrides;
  std::string address;
  PublicListener listener;
  // Where this user's own programs, such as a gateway, reach it without TLS; empty: nowhere.
  // Callers prove who they are there too.
  std::string owners_socket;
  std::string tokens;     // file of bearer tokens (services/security/token_file.h); none: empty
  std::string tokenizer;  // address
  Topology topology;
  RankTransport rank_transport = RankTransport::kSharedMemory;
  WeightType weights = WeightType::kAuto;  // what the other processes were told; for GetModel
  bool vllm_metric_names = false;
  int max_step_tokens = 512;
  int max_step_sequences = 64;
  int max_queued_sequences = 1024;
  absl::Duration max_request_work = absl::Seconds(30);  // EngineOptions
  DraftMode draft = DraftMode::kNgram;
  DraftPolicy draft_policy = DraftPolicy::kMeasured;
  std::optional<DraftModelPlace> draft_model;
  // Of steps (EngineOptions), and of the orchestrator's own work (ProgressWatch).
  absl::Duration hang_timeout = absl::Seconds(2);
  // How long requests wait while processes are replaced, or belong to the orchestrator that this
  // one succeeds (EngineOptions::hold_time). Zero: its successors refuse them.
  absl::Duration hold_time = absl::ZeroDuration();
  // Path of the program that computes Inspect calls; empty: there is none, and they are refused.
  std::string inspector;
  std::string tenants;  // file of the tenants' rules (tenants/tenant_rules.h); empty: none
  // What it was told, of which it reads what stands nowhere above.
  OptionValues values{kOrchestrator};
  // Borrowed; reports every request to a trace collector. Null: no tracing.
  Tracer* tracer = nullptr;
};

class OrchestratorServer final : public RunningService {
 public:
  // Serves at once; its health is SERVING while the whole replica is. Borrows the dialer. Errors of
  // reading the configuration and of Server::Start, or INVALID_ARGUMENT for an option out of range.
  static absl::StatusOr<std::unique_ptr<OrchestratorServer>> Start(
      const OrchestratorServerOptions& options, Dialer* dialer);
  ~OrchestratorServer() override;

  Server& server() override { return *server_; }
  std::vector<std::shared_ptr<prometheus::Collectable>> metrics() override;
  // Reads the tenants' rules again.
  bool Reload() override;
  Engine& engine() { return *engine_; }

 private:
  OrchestratorServer() = default;

  // Health follows the engine and the tokenizer, which may serve before this server does.
  struct Health;

  bool vllm_metric_names_ = false;
  std::shared_ptr<Health> health_;
  const std::shared_ptr<prometheus::Registry> registry_ = std::make_shared<prometheus::Registry>();
  std::shared_ptr<RequestMetrics> request_metrics_;
  StepMetrics step_metrics_{*registry_};
  Tracer* tracer_ = nullptr;
  std::unique_ptr<RequestTracer> request_tracer_;
  std::unique_ptr<EngineObserver> observers_;
  std::shared_ptr<TenantBook> tenants_;
  std::unique_ptr<TokenizerClient> tokenizer_;
  std::unique_ptr<TokenizerWatch> tokenizer_watch_;
  std::unique_ptr<ProgressWatch> progress_;
  std::shared_ptr<ConstraintPreparer> constraints_;
  KvEventPublisher kv_event_publisher_;
  std::unique_ptr<AdapterRegistry> adapters_;           // null: none can be loaded
  std::unique_ptr<AdapterFolderWatch> adapter_folder_;  // null: none is watched
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Authenticator> authenticator_;  // null: everybody is admitted
  std::unique_ptr<ConnectionGuard> guard_;
  std::unique_ptr<GenerationService> service_;
  std::unique_ptr<SessionService> sessions_;
  std::unique_ptr<EmbedService> embeds_;
  std::unique_ptr<InspectService> inspect_;
  std::unique_ptr<KvEventService> kv_events_;
  std::unique_ptr<InspectorRunner> inspector_;  // null: Inspect is refused; its calls use inspect_
  std::unique_ptr<Server> server_;
};

}  // namespace sluice
