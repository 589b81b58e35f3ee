// The public API over gRPC: checks requests, starts calls, answers what needs no engine.
// Thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
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
#include "services/security/authenticator.h"
#include "sluice/v1/generation.grpc.pb.h"
#include "sluice/v1/generation_session.pb.h"

namespace sluice {

namespace internal {

// Generate and Score parse their requests themselves (services/common/raw_message.h).
using Api = v1::GenerationService;
using GenerationServiceBase = Api::WithRawCallbackMethod_Generate<Api::WithRawCallbackMethod_Score<
    Api::WithCallbackMethod_Tokenize<Api::WithCallbackMethod_Detokenize<
        Api::WithCallbackMethod_ApplyChatTemplate<Api::WithCallbackMethod_GetVocabulary<
            Api::WithCallbackMethod_GetModel<Api::WithCallbackMethod_GetStatus<Api::Service>>>>>>>>;

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
                                     const v1::TokenizeRequest* request,
                                     v1::TokenizeResponse* response) override;
  grpc::ServerUnaryReactor* Detokenize(grpc::CallbackServerContext* context,
                                       const v1::DetokenizeRequest* request,
                                       v1::DetokenizeResponse* response) override;
  grpc::ServerUnaryReactor* GetVocabulary(grpc::CallbackServerContext* context,
                                          const v1::GetVocabularyRequest* request,
                                          v1::GetVocabularyResponse* response) override;
  grpc::ServerUnaryReactor* ApplyChatTemplate(grpc::CallbackServerContext* context,
                                              const v1::ApplyChatTemplateRequest* request,
                                              v1::ApplyChatTemplateResponse* response) override;
  grpc::ServerUnaryReactor* GetModel(grpc::CallbackServerContext* context,
                                     const v1::GetModelRequest* request,
                                     v1::GetModelResponse* response) override;
  grpc::ServerUnaryReactor* GetStatus(grpc::CallbackServerContext* context,
                                      const v1::GetStatusRequest* request,
                                      v1::GetStatusResponse* response) override;

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

  // Whether the caller is one who may call at all.
  absl::Status Admit(const grpc::CallbackServerContext& context) const;
  // Refuses fields that are not known as well.
  absl::Status AdmitRequest(const grpc::CallbackServerContext& context,
                            const google::protobuf::Message& request) const;
  // The tenant whom an admitted call is served for: the one it has proved to be, else whom it
  // names.
  absl::StatusOr<std::string> AdmitTenant(const grpc::CallbackServerContext& context) const;
  absl::StatusOr<std::string> AdmitTenant(const grpc::CallbackServerContext& session,
                                          const v1::StartCall& start) const;
  CallTrace TraceCall(const std::optional<TraceContext>& caller, std::string method,
                      std::string operation) const;
  void FillStatus(v1::GetStatusResponse& response) const;
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
  const Authenticator* const authenticator_;
  RequestMetrics* const metrics_;
  const RequestTracer* const tracer_;
  const absl::Time started_;
  const PromptResolver prompts_;
};

}  // namespace sluice
