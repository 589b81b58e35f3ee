// The public API over gRPC: checks requests, starts calls, answers what needs no engine.
// Thread-safe.
#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "orchestrator/adapters/adapter_registry.h"
#include "orchestrator/api/admission.h"
#include "orchestrator/api/call_stream.h"
#include "orchestrator/api/client_errors.h"
#include "orchestrator/api/model_description.h"
#include "orchestrator/api/prompt.h"
#include "orchestrator/constraints/constraint_preparer.h"
#include "orchestrator/engine/engine.h"
#include "orchestrator/metrics/request_metrics.h"
#include "orchestrator/tenants/tenant_book.h"
#include "orchestrator/text/tokenizer_client.h"
#include "orchestrator/text/tokenizer_watch.h"
#include "orchestrator/tracing/request_tracer.h"
#include "services/listener/connection_guard.h"
#include "services/messages/raw_message.h"
#include "services/security/authenticator.h"
#include "sluice/v1/generation.grpc.pb.h"
#include "sluice/v1/generation_session.pb.h"

namespace sluice {

class UnaryCall;
struct TextCallContext;

class GenerationService final : public v1::GenerationService::Service {
 public:
  // Borrows all; without `authenticator` everybody may call, without `metrics` nothing is counted,
  // without `tracer` no trace is begun, without `guard` connections have no limits.
  // Without `adapters` none are known nor loaded. `tokenizer_address` is for GetStatus. Every error passes `errors` on its way to a client.
  GenerationService(ModelDescription model, Engine* engine, ConstraintPreparer* constraints,
                    TokenizerClient* tokenizer, TokenizerWatch* watch,
                    std::string tokenizer_address, const TenantBook* tenants,
                    const Authenticator* authenticator = nullptr, RequestMetrics* metrics = nullptr,
                    const RequestTracer* tracer = nullptr, ConnectionGuard* guard = nullptr,
                    ClientErrors errors = ClientErrors(), AdapterRegistry* adapters = nullptr);

  // Serves a Generate call that came as part of a session, over the connection of `session`.
  void StartCall(const grpc::CallbackServerContext& session, const v1::StartCall& start,
                 std::shared_ptr<CallStream> stream);
  // Serve calls of EmbedService.
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Embed(
      grpc::CallbackServerContext* context);
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Rerank(
      grpc::CallbackServerContext* context);
  const Admission& admission() const { return admission_; }

 private:
  using Reactor = grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>;
  // Has calls of `method` served by `handler`, from their metadata on.
  void Serve(const std::string& method,
             Reactor* (GenerationService::*handler)(grpc::CallbackServerContext* context));

  // Handlers. Each admits the caller before it reads the request: of the others nothing is read.
  Reactor* Generate(grpc::CallbackServerContext* context);
  Reactor* Score(grpc::CallbackServerContext* context);
  Reactor* Tokenize(grpc::CallbackServerContext* context);
  Reactor* Detokenize(grpc::CallbackServerContext* context);
  Reactor* ApplyChatTemplate(grpc::CallbackServerContext* context);
  Reactor* GetVocabulary(grpc::CallbackServerContext* context);
  Reactor* GetModel(grpc::CallbackServerContext* context);
  Reactor* GetStatus(grpc::CallbackServerContext* context);
  Reactor* LoadAdapter(grpc::CallbackServerContext* context);
  Reactor* UnloadAdapter(grpc::CallbackServerContext* context);
  Reactor* ListAdapters(grpc::CallbackServerContext* context);
  // Has `serve` answer a call about texts, for the caller's tenant.
  template <class Request, class Response>
  Reactor* ServeTexts(grpc::CallbackServerContext* context, const char* method,
                      const char* operation,
                      void (*serve)(const TextCallContext&, const absl::StatusOr<Request>&,
                                    SteadyTime, UnaryCall*));
  // Answers a call of any authenticated caller: serve(request, call).
  template <class Request>
  Reactor* ServeUnary(grpc::CallbackServerContext* context, const MessageLimits& limits,
                      std::function<void(Request request, UnaryCall* call)> serve);
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
  CallTrace TraceCall(const std::optional<TraceContext>& caller, std::string method,
                      std::string operation) const;
  v1::GetModelResponse DescribeModel() const;
  v1::GetStatusResponse DescribeStatus() const;
  // PERMISSION_DENIED where the rules do not let the caller load adapters.
  absl::Status CheckLoadsAdapters(const grpc::CallbackServerContext& context) const;
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
  const ClientErrors errors_;
  const absl::Time started_;
  const PromptResolver prompts_;
  AdapterRegistry* const adapters_;
};

}  // namespace sluice
