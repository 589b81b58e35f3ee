// One Score call: the log-probabilities of the tokens of one text or of several. Thread-safe.
#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "orchestrator/api/model_description.h"
#include "orchestrator/api/prompt.h"
#include "orchestrator/api/score_batch.h"
#include "orchestrator/engine/engine.h"
#include "orchestrator/tenants/tenant_book.h"
#include "orchestrator/tracing/request_tracer.h"
#include "services/common/steady_time.h"
#include "sluice/v1/generation.pb.h"

namespace sluice {

// Belongs to gRPC, which ends its life with OnDone.
class ScoreCall final : public grpc::ServerUnaryReactor {
 public:
  // What a call works with; references are borrowed.
  struct Context {
    const ModelDescription& model;
    const PromptResolver& prompts;
    Engine& engine;
    const TenantBook& tenants;
    std::string tenant;  // that it is served for
    CallTrace trace;
    const RequestTracer* tracer = nullptr;  // null: nobody is told
  };

  // Serves `request`, or answers why there is none. `response` lives as long as the call.
  ScoreCall(const Context& context, const absl::StatusOr<v1::ScoreRequest>& request,
            grpc::ByteBuffer& response, SteadyTime deadline);

 private:
  class Answer;

  void OnCancel() override;
  void OnDone() override;

  const std::shared_ptr<Answer> answer_;
  std::shared_ptr<ScoreBatch> batch_;
};

}  // namespace sluice
