// One Score call: the log-probabilities of the tokens of one text or of several.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "orchestrator/adapters/adapter_registry.h"
#include "orchestrator/api/model_description.h"
#include "orchestrator/api/prompt.h"
#include "orchestrator/api/unary_call.h"
#include "orchestrator/engine/engine.h"
#include "orchestrator/tenants/tenant_book.h"
#include "orchestrator/tracing/request_tracer.h"
#include "services/common/steady_time.h"
#include "sluice/v1/generation.pb.h"

namespace sluice {

// What a call works with; references are borrowed.
struct ScoreContext {
  const ModelDescription& model;
  const PromptResolver& prompts;
  Engine& engine;
  const TenantBook& tenants;
  const AdapterRegistry* adapters;  // null: there are none
  std::string tenant;               // that it is served for
  CallTrace trace;
  const RequestTracer* tracer = nullptr;  // null: not reported
};

// Answers `call` with what `request` asks for, or with why there is none. To be called once.
void StartScore(const ScoreContext& context, const absl::StatusOr<v1::ScoreRequest>& request,
                SteadyTime deadline, UnaryCall* call);

}  // namespace sluice
