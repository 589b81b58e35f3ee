// Calls of EmbedService: the embeddings of several texts, and how well documents answer a query.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "orchestrator/api/model_description.h"
#include "orchestrator/api/prompt.h"
#include "orchestrator/api/unary_call.h"
#include "orchestrator/engine/engine.h"
#include "orchestrator/tenants/tenant_book.h"
#include "orchestrator/text/tokenizer_client.h"
#include "orchestrator/tracing/request_tracer.h"
#include "services/common/steady_time.h"
#include "sluice/v1/embed.pb.h"

namespace sluice {

// What a call works with; references are borrowed.
struct EmbedContext {
  const ModelDescription& model;
  const PromptResolver& prompts;
  TokenizerClient& tokenizer;
  Engine& engine;
  const TenantBook& tenants;
  std::string tenant;  // that it is served for
  CallTrace trace;
  const RequestTracer* tracer = nullptr;  // null: not reported
};

// Each answers `call` with what `request` asks for, or with why there is none. To be called once.
void StartEmbed(const EmbedContext& context, const absl::StatusOr<v1::EmbedRequest>& request,
                SteadyTime deadline, UnaryCall* call);
void StartRerank(const EmbedContext& context, const absl::StatusOr<v1::RerankRequest>& request,
                 SteadyTime deadline, UnaryCall* call);

}  // namespace sluice
