// A call about several texts that is answered once: Score, Embed and Rerank.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "orchestrator/adapters/adapter_registry.h"
#include "orchestrator/api/model_description.h"
#include "orchestrator/api/prompt.h"
#include "orchestrator/api/unary_answer.h"
#include "orchestrator/api/unary_call.h"
#include "orchestrator/engine/engine.h"
#include "orchestrator/tenants/tenant_book.h"
#include "orchestrator/text/tokenizer_client.h"
#include "orchestrator/tracing/request_tracer.h"

namespace sluice {

// What a call works with; references are borrowed.
struct TextCallContext {
  const ModelDescription& model;
  const PromptResolver& prompts;
  TokenizerClient& tokenizer;
  Engine& engine;
  const TenantBook& tenants;
  const AdapterRegistry* adapters;  // null: there are none
  std::string tenant;               // that it is served for
  CallTrace trace;
  const RequestTracer* tracer = nullptr;  // null: not reported
};

// Starts a TextBatch whose result goes to `answer`, unless the caller leaves first.
template <class Batch, class Response>
void StartBatch(const std::shared_ptr<Batch>& batch, UnaryCall* call,
                const std::shared_ptr<UnaryAnswer<Response>>& answer) {
  // Before it starts, while the call is there for certain.
  call->caller()->OnCancel([batch, answer] {
    batch->Cancel();
    answer->Give(absl::CancelledError("the caller left"));
  });
  batch->Start();
}

}  // namespace sluice
