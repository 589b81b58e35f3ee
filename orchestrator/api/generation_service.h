// The public API over gRPC: checks requests, starts calls, answers what needs no engine.
// Thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "orchestrator/api/admission.h"
#include "orchestrator/api/call_stream.h"
#include "orchestrator/api/model_description.h"
#include "orchestrator/api/prompt.h"
#include "orchestrator/constraints/constraint_preparer.h"
#include "orchestrator/engine/engine.h"
#include "orchestrator/metrics/request_metrics.h"
#include "orchestrator/tenants/tenant_book.h"
#include "orchestrator/text/tokenizer_client.h"
#include "orchestrator/text/tokenizer_watch.h"
#include "orchestrator/tracing/request_tracer.h"
#include "services/common/raw_message.h"
#include "services/security/authenticator.h"
#include "sluice/v1/generation.grpc.pb.h"
#include "sluice/v1/generation_session.pb.h"

namespace sluice {

namespace internal {

// Requests are parsed here (services/common/raw_message.h).
using Api = v1::GenerationService;
using GenerationServiceBase = Api::WithRawCallbackMethod_Generate<
    Api::WithRawCallbackMethod_Score<Api::WithRawCallbackMethod_Tokenize<
        Api::WithRawCallbackMethod_Detokenize<Api::WithRawCallbackMethod_ApplyChatTemplate<
            Api::WithRawCallbackMethod_GetVocabulary<Api::WithRawCallbackMethod_GetModel<
                Api::WithRawCallbackMethod_GetStatus<Api::Service>>>>>>>>;

}  // namespace internal

class GenerationService final : public internal::GenerationServiceBase {
 public:
  // Borrows all; without `authenticator` everybody may call, without `metrics` nothing is counted,
  // without `tracer` no trace is begun.
  // `tokenizer_address` is for GetStatus.
  GenerationService(ModelDescription model, Engine* engine, ConstraintPreparer* constraints,
                    TokenizerClient* tokenizer, TokenizerWatch* watch,
                    std::string tokenizer_address, const TenantBook* tenants,
                    const Authenticator* authenticator = nullptr, RequestMetrics* metrics = nullptr,
                    const RequestTracer* tracer = nullptr);

  grpc::ServerWriteReactor<grpc::ByteBuffer>* Generate(grpc::CallbackServerContext* context,
                                                       const grpc::ByteBuffer* request) override;
  grpc::ServerUnaryReactor* Score(grpc::CallbackServerContext* context,
                                  const grpc::ByteBuffer* request,
                                  grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Tokenize(grpc::CallbackServerContext* context,
                                     const grpc::ByteBuffer* request,
                                     grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Detokenize(grpc::CallbackServerContext* context,
                                       const grpc::ByteBuffer* request,
                                       grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* GetVocabulary(grpc::CallbackServerContext* context,
                                          const grpc::ByteBuffer* request,
                                          grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* ApplyChatTemplate(grpc::CallbackServerContext* context,
                                              const grpc::ByteBuffer* request,
                                              grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* GetModel(grpc::CallbackServerContext* context,
                                     const grpc::ByteBuffer* request,
                                     grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* GetStatus(grpc::CallbackServerContext* context,
                                      const grpc::ByteBuffer* request,
                                      grpc::ByteBuffer* response) override;

  // Serves a Generate call that came as part of a session, over the connection of `session`.
  void StartCall(const grpc::CallbackServerContext& session, const v1::StartCall& start,
                 std::shared_ptr<CallStream> stream);

 private:
  // A Generate call as its caller describes it.
  struct GenerateOrigin {
    absl::StatusOr<std::string> tenant;
    std::optional<TraceContext> trace;
    SteadyTime deadline;
  };
  void StartGenerate(const GenerateOrigin& origin, const grpc::ByteBuffer& request,
                     std::shared_ptr<CallStream> stream);

  // For what the tokenizer is asked for a call.
  RequestContext ContextOf(const grpc::CallbackServerContext& context, Cancellation* caller) const;
  // Refuses fields that are not known as well.
  template <class Request>
  absl::StatusOr<Request> ParseAdmitted(const grpc::CallbackServerContext& context,
                                        const grpc::ByteBuffer& request,
                                        const MessageLimits& limits = {}) const;
  CallTrace TraceCall(const std::optional<TraceContext>& caller, std::string method,
                      std::string operation) const;
  v1::GetModelResponse DescribeModel() const;
  v1::GetStatusResponse DescribeStatus() const;
  // Which requests the caller asks for and may be told of.
  absl::StatusOr<LedgerQuery> QueryOf(const grpc::CallbackServerContext& context,
                                      const v1::GetStatusRequest& request) const;

  const ModelDescription model_;
  Engine* const engine_;
  ConstraintPreparer* const constraints_;
  TokenizerClient* const tokenizer_;
  TokenizerWatch* const watch_;
  const std::string tokenizer_address_;
  const TenantBook* const tenants_;
  const Admission admission_;
  RequestMetrics* const metrics_;
  const RequestTracer* const tracer_;
  const absl::Time started_;
  const PromptResolver prompts_;
};

}  // namespace sluice
