// One Generate call: from the request through tokenizer and engine to the client's stream.
// Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "orchestrator/adapters/adapter_registry.h"
#include "orchestrator/api/call_stream.h"
#include "orchestrator/api/client_errors.h"
#include "orchestrator/api/prompt.h"
#include "orchestrator/constraints/constraint_preparer.h"
#include "orchestrator/engine/engine.h"
#include "orchestrator/metrics/request_metrics.h"
#include "orchestrator/tenants/tenant_book.h"
#include "orchestrator/text/cancellation.h"
#include "orchestrator/tracing/request_tracer.h"
#include "services/common/prefix_key.h"
#include "services/common/steady_time.h"
#include "sluice/v1/generation.pb.h"

namespace sluice {

class GenerateCall final : public RequestSink, public std::enable_shared_from_this<GenerateCall> {
 public:
  // What a call works with; references are borrowed.
  struct Context {
    const ModelDescription& model;
    const PromptResolver& prompts;
    TokenizerClient& tokenizer;
    ConstraintPreparer& constraints;
    Engine& engine;
    const TenantBook& tenants;
    const AdapterRegistry* adapters;  // null: there are none
    const ClientErrors& errors;
    std::string tenant;        // that it is served for
    std::string tenant_class;  // as the metrics have it
    CallTrace trace;
    RequestMetrics* metrics = nullptr;      // null: nothing is counted
    const RequestTracer* tracer = nullptr;  // null: not reported
  };

  // Serves `request`, or answers why there is none. The call lives for as long as something waits
  // for it.
  static void Start(const Context& context, absl::StatusOr<v1::GenerateRequest> request,
                    SteadyTime deadline, std::shared_ptr<CallStream> stream);

  void OnChunk(ChunkEvent chunk) override;
  void OnFinished(RequestEnd end) override;
  void OnFailed(absl::Status status) override;

 private:
  GenerateCall(const Context& context, v1::GenerateRequest request, SteadyTime deadline,
               std::shared_ptr<CallStream> stream);

  void Begin();
  // For what is asked of others before the engine.
  RequestContext AskingContext() const;
  void Prepare(absl::StatusOr<ResolvedPrompt> prompt);
  void PrepareConstraint(ResolvedPrompt prompt);
  void Submit(ResolvedPrompt prompt, std::shared_ptr<const ConstraintSpec> constraint);
  void Cancel();
  // Whether the client takes what it is sent.
  void SetReading(bool reads);
  void Refuse(const absl::Status& status);
  static void CountRefused(const Context& context, const absl::Status& status);
  void Send(v1::GenerateResponse response);

  const Context context_;
  v1::GenerateRequest request_;  // constant once its texts are tokens
  const SteadyTime deadline_;
  const std::shared_ptr<WorkMeter> meter_ = context_.engine.MeterFor(context_.tenant);
  // Set before the engine hears of the request.
  uint64_t seed_ = 0;
  int32_t num_prompt_tokens_ = 0;
  PrefixKey cache_scope_ = 0;
  const std::shared_ptr<CallStream> stream_;
  const std::shared_ptr<Cancellation> caller_ = std::make_shared<Cancellation>();
  const SteadyTime arrived_ = SteadyTime::Now();
  bool sent_ = false;  // something; of the engine's thread

  absl::Mutex mutex_;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  bool reads_ ABSL_GUARDED_BY(mutex_) = true;
  std::optional<RequestId> submitted_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sluice
