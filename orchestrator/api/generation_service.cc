#include "orchestrator/api/generation_service.h"

#include <utility>

#include "absl/time/clock.h"
#include "orchestrator/api/caller.h"
#include "orchestrator/api/generate_call.h"
#include "orchestrator/api/request_attributes.h"
#include "orchestrator/api/request_check.h"
#include "orchestrator/api/score_call.h"
#include "orchestrator/api/status_message.h"
#include "orchestrator/api/unary_call.h"
#include "orchestrator/api/writer_stream.h"
#include "services/common/call_deadline.h"

namespace sluice {
namespace {

// Of calls without texts or tokens in them.
constexpr MessageLimits kSmall = {.bytes = size_t{64} << 10};

// The request of a caller who was admitted; nothing of another's is looked at.
template <class Request>
absl::StatusOr<Request> ParseIf(const absl::Status& admitted, const grpc::ByteBuffer& bytes,
                                const MessageLimits& limits = {}) {
  if (!admitted.ok()) return admitted;
  return ParseMessage<Request>(bytes, limits);
}

// Answers with what is done elsewhere, which `ask` has done: ask(request, callback, caller).
template <class Response, class Request, class Ask>
grpc::ServerUnaryReactor* PassOn(absl::StatusOr<Request> request, grpc::ByteBuffer* response,
                                 const Ask& ask) {
  auto* call = new UnaryCall(response);
  const auto answer = [call](const absl::StatusOr<Response>& answer) { call->Answer(answer); };
  if (!request.ok()) {
    answer(request.status());
  } else {
    ask(*std::move(request), answer, call->caller());
  }
  return call;
}

}  // namespace

GenerationService::GenerationService(ModelDescription model, Engine* engine,
                                     ConstraintPreparer* constraints, TokenizerClient* tokenizer,
                                     TokenizerWatch* watch, std::string tokenizer_address,
                                     const TenantBook* tenants, const Authenticator* authenticator,
                                     RequestMetrics* metrics, const RequestTracer* tracer)
    : model_(std::move(model)),
      engine_(engine),
      constraints_(constraints),
      tokenizer_(tokenizer),
      watch_(watch),
      tokenizer_address_(std::move(tokenizer_address)),
      tenants_(tenants),
      admission_(authenticator),
      metrics_(metrics),
      tracer_(tracer),
      started_(absl::Now()),
      prompts_(&model_, tokenizer, watch) {}

grpc::ServerWriteReactor<grpc::ByteBuffer>* GenerationService::Generate(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* request) {
  const std::shared_ptr<WriterStream::Writer> writer = WriterStream::Writer::Start();
  StartGenerate({.tenant = admission_.TenantOf(*context),
                 .trace = TraceOf(*context),
                 .deadline = DeadlineOf(*context)},
                *request, std::make_shared<WriterStream>(writer));
  return writer.get();
}

void GenerationService::StartCall(const grpc::CallbackServerContext& session,
                                  const v1::StartCall& start, std::shared_ptr<CallStream> stream) {
  const grpc::Slice bytes(start.request());
  StartGenerate({.tenant = admission_.TenantOf(session, start),
                 .trace = ParseTraceContext(start.traceparent(), start.tracestate()),
                 .deadline = start.has_timeout_ms()
                                 ? SteadyTime::Now() + absl::Milliseconds(start.timeout_ms())
                                 : SteadyTime::InfiniteFuture()},
                grpc::ByteBuffer(&bytes, 1), std::move(stream));
}

void GenerationService::StartGenerate(const GenerateOrigin& origin, const grpc::ByteBuffer& request,
                                      std::shared_ptr<CallStream> stream) {
  absl::StatusOr<v1::GenerateRequest> parsed =
      ParseIf<v1::GenerateRequest>(origin.tenant.status(), request);
  const std::string operation = OperationOf(parsed.ok() ? *parsed : v1::GenerateRequest());
  GenerateCall::Start({.model = model_,
                       .prompts = prompts_,
                       .tokenizer = *tokenizer_,
                       .constraints = *constraints_,
                       .engine = *engine_,
                       .tenants = *tenants_,
                       .tenant = origin.tenant.value_or(""),
                       .tenant_class = tenants_->ClassOf(origin.tenant.value_or("")),
                       .trace = TraceCall(origin.trace, "Generate", operation),
                       .metrics = metrics_,
                       .tracer = tracer_},
                      std::move(parsed), origin.deadline, std::move(stream));
}

grpc::ServerUnaryReactor* GenerationService::Score(grpc::CallbackServerContext* context,
                                                   const grpc::ByteBuffer* request,
                                                   grpc::ByteBuffer* response) {
  const absl::StatusOr<std::string> tenant = admission_.TenantOf(*context);
  return new ScoreCall({.model = model_,
                        .prompts = prompts_,
                        .engine = *engine_,
                        .tenants = *tenants_,
                        .tenant = tenant.value_or(""),
                        .trace = TraceCall(TraceOf(*context), "Score", "score"),
                        .tracer = tracer_},
                       ParseIf<v1::ScoreRequest>(tenant.status(), *request), *response,
                       DeadlineOf(*context));
}

// The call outlives what is asked for it.
RequestContext GenerationService::ContextOf(const grpc::CallbackServerContext& context,
                                            Cancellation* caller) const {
  return {.deadline = DeadlineOf(context),
          .work = {.owner = tenants_->OwnerFor(admission_.TenantOf(context).value_or("")),
                   .meter = nullptr},
          .cancellation = std::shared_ptr<Cancellation>(std::shared_ptr<void>(), caller)};
}

template <class Request>
absl::StatusOr<Request> GenerationService::ParseAdmitted(const grpc::CallbackServerContext& context,
                                                         const grpc::ByteBuffer& bytes,
                                                         const MessageLimits& limits) const {
  absl::StatusOr<Request> request = ParseIf<Request>(admission_.Check(context), bytes, limits);
  if (!request.ok()) return request;
  const absl::Status known = CheckKnownFields(*request);
  if (!known.ok()) return known;
  return request;
}

grpc::ServerUnaryReactor* GenerationService::Tokenize(grpc::CallbackServerContext* context,
                                                      const grpc::ByteBuffer* request,
                                                      grpc::ByteBuffer* response) {
  return PassOn<v1::TokenizeResponse>(
      ParseAdmitted<v1::TokenizeRequest>(*context, *request), response,
      [&](v1::TokenizeRequest&& asked, auto answer, Cancellation* caller) {
        tokenizer_->Tokenize(std::move(asked), ContextOf(*context, caller), std::move(answer));
      });
}

grpc::ServerUnaryReactor* GenerationService::Detokenize(grpc::CallbackServerContext* context,
                                                        const grpc::ByteBuffer* request,
                                                        grpc::ByteBuffer* response) {
  return PassOn<v1::DetokenizeResponse>(
      ParseAdmitted<v1::DetokenizeRequest>(*context, *request), response,
      [&](v1::DetokenizeRequest&& asked, auto answer, Cancellation* caller) {
        tokenizer_->Detokenize(std::move(asked), ContextOf(*context, caller), std::move(answer));
      });
}

grpc::ServerUnaryReactor* GenerationService::GetVocabulary(grpc::CallbackServerContext* context,
                                                           const grpc::ByteBuffer* request,
                                                           grpc::ByteBuffer* response) {
  return PassOn<v1::GetVocabularyResponse>(
      ParseAdmitted<v1::GetVocabularyRequest>(*context, *request, kSmall), response,
      [&](v1::GetVocabularyRequest&& asked, auto answer, Cancellation* caller) {
        tokenizer_->GetVocabulary(std::move(asked), ContextOf(*context, caller), std::move(answer));
      });
}

grpc::ServerUnaryReactor* GenerationService::ApplyChatTemplate(grpc::CallbackServerContext* context,
                                                               const grpc::ByteBuffer* request,
                                                               grpc::ByteBuffer* response) {
  return PassOn<v1::ApplyChatTemplateResponse>(
      ParseAdmitted<v1::ApplyChatTemplateRequest>(*context, *request), response,
      [&](v1::ApplyChatTemplateRequest&& asked, auto answer, Cancellation* caller) {
        tokenizer_->ApplyChatTemplate(std::move(asked), ContextOf(*context, caller),
                                      std::move(answer));
      });
}

v1::GetModelResponse GenerationService::DescribeModel() const {
  v1::GetModelResponse response;
  response.set_name(model_.name);
  response.set_architecture(model_.architecture);
  response.set_vocabulary_size(model_.vocabulary_size);
  response.set_max_positions(model_.max_positions);
  response.set_num_layers(model_.num_layers);
  response.set_hidden_size(model_.hidden_size);
  response.set_weights(model_.weights);
  response.mutable_eos_token_ids()->Add(model_.eos_token_ids.begin(), model_.eos_token_ids.end());
  return response;
}

grpc::ServerUnaryReactor* GenerationService::GetModel(grpc::CallbackServerContext* context,
                                                      const grpc::ByteBuffer* request,
                                                      grpc::ByteBuffer* response) {
  return PassOn<v1::GetModelResponse>(
      ParseAdmitted<v1::GetModelRequest>(*context, *request, kSmall), response,
      [&](const v1::GetModelRequest&, auto answer, Cancellation*) {
        watch_->Get(DeadlineOf(*context),
                    [answer, model = DescribeModel()](
                        absl::StatusOr<v1::GetTokenizerInfoResponse> info) mutable {
                      if (!info.ok()) return answer(info.status());
                      model.set_has_tokenizer(info->has_tokenizer());
                      model.set_has_chat_template(info->has_chat_template());
                      answer(std::move(model));
                    });
      });
}

CallTrace GenerationService::TraceCall(const std::optional<TraceContext>& caller,
                                       std::string method, std::string operation) const {
  if (tracer_ != nullptr) return tracer_->Begin(caller, std::move(method), std::move(operation));
  return {.trace_id = caller.has_value() ? caller->trace_id : "", .span = nullptr};
}

v1::GetStatusResponse GenerationService::DescribeStatus() const {
  v1::GetStatusResponse response;
  const absl::Status status = watch_->status();
  v1::ProcessStatus& tokenizer = *response.add_processes();
  tokenizer.set_service("tokenizer");
  tokenizer.set_address(tokenizer_address_);
  tokenizer.set_state(status.ok() ? v1::PROCESS_STATE_READY : v1::PROCESS_STATE_CONNECTING);
  tokenizer.set_detail(std::string(status.message()));
  FillStatus(engine_->status(), engine_->processes(), response);
  response.set_serving(response.serving() && status.ok());
  response.set_num_stages(engine_->topology().num_stages());
  response.set_num_ranks(engine_->topology().num_ranks());
  response.set_model_name(model_.name);
  response.set_uptime_ms(static_cast<uint64_t>(absl::ToInt64Milliseconds(absl::Now() - started_)));
  return response;
}

absl::StatusOr<LedgerQuery> GenerationService::QueryOf(const grpc::CallbackServerContext& context,
                                                       const v1::GetStatusRequest& request) const {
  LedgerQuery query = {.all = request.include_requests(), .name = request.request_id()};
  if (!admission_.asks_for_proof()) return query;
  absl::StatusOr<std::string> tenant = admission_.TenantOf(context);
  if (!tenant.ok()) return tenant.status();
  if (!tenants_->SeesAllRequests(*tenant)) query.tenant = *std::move(tenant);
  return query;
}

grpc::ServerUnaryReactor* GenerationService::GetStatus(grpc::CallbackServerContext* context,
                                                       const grpc::ByteBuffer* request,
                                                       grpc::ByteBuffer* response) {
  return PassOn<v1::GetStatusResponse>(
      ParseAdmitted<v1::GetStatusRequest>(*context, *request, kSmall), response,
      [&](const v1::GetStatusRequest& asked, auto answer, Cancellation*) {
        const absl::StatusOr<LedgerQuery> query = QueryOf(*context, asked);
        if (!query.ok()) return answer(query.status());
        v1::GetStatusResponse status = DescribeStatus();
        if (!query->all && query->name.empty()) return answer(std::move(status));
        engine_->Report(*query,
                        [answer, status = std::move(status)](const LedgerReport& report) mutable {
                          FillLedger(report, status);
                          answer(std::move(status));
                        });
      });
}

}  // namespace sluice
