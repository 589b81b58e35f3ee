#include "orchestrator/api/generation_service.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "orchestrator/api/caller.h"
#include "orchestrator/api/generate_call.h"
#include "orchestrator/api/request_attributes.h"
#include "orchestrator/api/request_check.h"
#include "orchestrator/api/score_call.h"
#include "orchestrator/api/status_message.h"
#include "orchestrator/api/writer_stream.h"
#include "services/common/call_deadline.h"
#include "services/common/raw_message.h"
#include "services/common/status.h"

namespace sluice {
namespace {

// The request of a caller who was admitted; nothing of another's is looked at.
template <class Request>
absl::StatusOr<Request> ParseAdmitted(const absl::Status& admitted, const grpc::ByteBuffer& bytes) {
  if (!admitted.ok()) return admitted;
  return ParseMessage<Request>(bytes);
}

// What calls without texts or tokens in them have no use for.
absl::Status CheckSmall(const google::protobuf::Message& request) {
  constexpr size_t kMostBytes = size_t{64} << 10;
  if (request.ByteSizeLong() <= kMostBytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("the request has ", request.ByteSizeLong(),
                                                   " bytes; accepted: up to ", kMostBytes));
}

grpc::ServerUnaryReactor* Refuse(grpc::CallbackServerContext& context, const absl::Status& status) {
  grpc::ServerUnaryReactor* call = context.DefaultReactor();
  call->Finish(ToGrpc(status));
  return call;
}

// Answers with what the tokenizer does, which `ask` asks: ask(deadline, callback). Refuses where
// `status` is an error.
template <class Response, class Ask>
grpc::ServerUnaryReactor* PassOn(grpc::CallbackServerContext& context, const absl::Status& status,
                                 Response* response, const Ask& ask) {
  if (!status.ok()) return Refuse(context, status);
  grpc::ServerUnaryReactor* call = context.DefaultReactor();
  ask(DeadlineOf(context), [call, response](absl::StatusOr<Response> answer) {
    const absl::Status status = answer.status();
    if (status.ok()) *response = *std::move(answer);
    call->Finish(ToGrpc(status));
  });
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
      authenticator_(authenticator),
      metrics_(metrics),
      tracer_(tracer),
      started_(absl::Now()),
      prompts_(&model_, tokenizer, watch) {}

grpc::ServerWriteReactor<grpc::ByteBuffer>* GenerationService::Generate(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* request) {
  const std::shared_ptr<WriterStream::Writer> writer = WriterStream::Writer::Start();
  StartGenerate({.tenant = AdmitTenant(*context),
                 .trace = TraceOf(*context),
                 .deadline = DeadlineOf(*context)},
                *request, std::make_shared<WriterStream>(writer));
  return writer.get();
}

void GenerationService::StartCall(const grpc::CallbackServerContext& session,
                                  const v1::StartCall& start, std::shared_ptr<CallStream> stream) {
  const grpc::Slice bytes(start.request());
  StartGenerate({.tenant = AdmitTenant(session, start),
                 .trace = ParseTraceContext(start.traceparent(), start.tracestate()),
                 .deadline = start.has_timeout_ms()
                                 ? SteadyTime::Now() + absl::Milliseconds(start.timeout_ms())
                                 : SteadyTime::InfiniteFuture()},
                grpc::ByteBuffer(&bytes, 1), std::move(stream));
}

void GenerationService::StartGenerate(const GenerateOrigin& origin, const grpc::ByteBuffer& request,
                                      std::shared_ptr<CallStream> stream) {
  absl::StatusOr<v1::GenerateRequest> parsed =
      ParseAdmitted<v1::GenerateRequest>(origin.tenant.status(), request);
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
  absl::StatusOr<std::string> tenant = AdmitTenant(*context);
  return new ScoreCall({.model = model_,
                        .prompts = prompts_,
                        .engine = *engine_,
                        .tenants = *tenants_,
                        .tenant = tenant.value_or(""),
                        .trace = TraceCall(TraceOf(*context), "Score", "score"),
                        .tracer = tracer_},
                       ParseAdmitted<v1::ScoreRequest>(tenant.status(), *request), *response,
                       DeadlineOf(*context));
}

grpc::ServerUnaryReactor* GenerationService::Tokenize(grpc::CallbackServerContext* context,
                                                      const v1::TokenizeRequest* request,
                                                      v1::TokenizeResponse* response) {
  return PassOn(*context, AdmitRequest(*context, *request), response,
                [&](SteadyTime deadline, auto callback) {
                  tokenizer_->Tokenize(*request, deadline, std::move(callback));
                });
}

grpc::ServerUnaryReactor* GenerationService::Detokenize(grpc::CallbackServerContext* context,
                                                        const v1::DetokenizeRequest* request,
                                                        v1::DetokenizeResponse* response) {
  return PassOn(*context, AdmitRequest(*context, *request), response,
                [&](SteadyTime deadline, auto callback) {
                  tokenizer_->Detokenize(*request, deadline, std::move(callback));
                });
}

grpc::ServerUnaryReactor* GenerationService::GetVocabulary(grpc::CallbackServerContext* context,
                                                           const v1::GetVocabularyRequest* request,
                                                           v1::GetVocabularyResponse* response) {
  absl::Status status = Admit(*context);
  if (status.ok()) status = CheckSmall(*request);
  if (status.ok()) status = CheckKnownFields(*request);
  return PassOn(*context, status, response, [&](SteadyTime deadline, auto callback) {
    tokenizer_->GetVocabulary(*request, deadline, std::move(callback));
  });
}

grpc::ServerUnaryReactor* GenerationService::ApplyChatTemplate(
    grpc::CallbackServerContext* context, const v1::ApplyChatTemplateRequest* request,
    v1::ApplyChatTemplateResponse* response) {
  return PassOn(*context, AdmitRequest(*context, *request), response,
                [&](SteadyTime deadline, auto callback) {
                  tokenizer_->ApplyChatTemplate(*request, deadline, std::move(callback));
                });
}

grpc::ServerUnaryReactor* GenerationService::GetModel(grpc::CallbackServerContext* context,
                                                      const v1::GetModelRequest* request,
                                                      v1::GetModelResponse* response) {
  absl::Status status = Admit(*context);
  if (status.ok()) status = CheckSmall(*request);
  if (!status.ok()) return Refuse(*context, status);
  response->set_name(model_.name);
  response->set_architecture(model_.architecture);
  response->set_vocabulary_size(model_.vocabulary_size);
  response->set_max_positions(model_.max_positions);
  response->set_num_layers(model_.num_layers);
  response->set_hidden_size(model_.hidden_size);
  response->set_weights(model_.weights);
  response->mutable_eos_token_ids()->Add(model_.eos_token_ids.begin(), model_.eos_token_ids.end());
  grpc::ServerUnaryReactor* call = context->DefaultReactor();
  watch_->Get(DeadlineOf(*context),
              [call, response](absl::StatusOr<v1::GetTokenizerInfoResponse> info) {
                if (info.ok()) {
                  response->set_has_tokenizer(info->has_tokenizer());
                  response->set_has_chat_template(info->has_chat_template());
                }
                call->Finish(ToGrpc(info.status()));
              });
  return call;
}

absl::Status GenerationService::Admit(const grpc::CallbackServerContext& context) const {
  if (authenticator_ == nullptr) return absl::OkStatus();
  return authenticator_->Admit(context).status();
}

absl::Status GenerationService::AdmitRequest(const grpc::CallbackServerContext& context,
                                             const google::protobuf::Message& request) const {
  absl::Status status = Admit(context);
  return status.ok() ? CheckKnownFields(request) : status;
}

absl::StatusOr<std::string> GenerationService::AdmitTenant(
    const grpc::CallbackServerContext& context) const {
  if (authenticator_ == nullptr) return TenantOf(context);
  absl::StatusOr<Caller> caller = authenticator_->Admit(context);
  if (!caller.ok()) return caller.status();
  return caller->tenant;
}

absl::StatusOr<std::string> GenerationService::AdmitTenant(
    const grpc::CallbackServerContext& session, const v1::StartCall& start) const {
  if (authenticator_ == nullptr) return TenantOf(start.sluice_tenant(), session);
  std::optional<absl::string_view> authorization;
  if (!start.authorization().empty()) authorization = start.authorization();
  absl::StatusOr<Caller> caller = authenticator_->Admit(authorization, session);
  if (!caller.ok()) return caller.status();
  return caller->tenant;
}

CallTrace GenerationService::TraceCall(const std::optional<TraceContext>& caller,
                                       std::string method, std::string operation) const {
  if (tracer_ != nullptr) return tracer_->Begin(caller, std::move(method), std::move(operation));
  return {.trace_id = caller.has_value() ? caller->trace_id : "", .span = nullptr};
}

void GenerationService::FillStatus(v1::GetStatusResponse& response) const {
  const absl::Status status = watch_->status();
  v1::ProcessStatus& tokenizer = *response.add_processes();
  tokenizer.set_service("tokenizer");
  tokenizer.set_address(tokenizer_address_);
  tokenizer.set_state(status.ok() ? v1::PROCESS_STATE_READY : v1::PROCESS_STATE_CONNECTING);
  tokenizer.set_detail(std::string(status.message()));
  sluice::FillStatus(engine_->status(), engine_->processes(), response);
  response.set_serving(response.serving() && status.ok());
  response.set_num_stages(engine_->topology().num_stages());
  response.set_num_ranks(engine_->topology().num_ranks());
  response.set_model_name(model_.name);
  response.set_uptime_ms(static_cast<uint64_t>(absl::ToInt64Milliseconds(absl::Now() - started_)));
}

absl::StatusOr<LedgerQuery> GenerationService::QueryOf(const grpc::CallbackServerContext& context,
                                                       const v1::GetStatusRequest& request) const {
  absl::Status status = CheckSmall(request);
  if (status.ok()) status = CheckKnownFields(request);
  if (!status.ok()) return status;
  LedgerQuery query = {.all = request.include_requests(), .name = request.request_id()};
  if (authenticator_ == nullptr) return query;
  absl::StatusOr<std::string> tenant = AdmitTenant(context);
  if (!tenant.ok()) return tenant.status();
  if (!tenants_->SeesAllRequests(*tenant)) query.tenant = *std::move(tenant);
  return query;
}

grpc::ServerUnaryReactor* GenerationService::GetStatus(grpc::CallbackServerContext* context,
                                                       const v1::GetStatusRequest* request,
                                                       v1::GetStatusResponse* response) {
  if (const absl::Status status = Admit(*context); !status.ok()) return Refuse(*context, status);
  const absl::StatusOr<LedgerQuery> query = QueryOf(*context, *request);
  if (!query.ok()) return Refuse(*context, query.status());
  grpc::ServerUnaryReactor* call = context->DefaultReactor();
  FillStatus(*response);
  if (!query->all && query->name.empty()) {
    call->Finish(grpc::Status::OK);
    return call;
  }
  engine_->Report(*query, [call, response](const LedgerReport& report) {
    FillLedger(report, *response);
    call->Finish(grpc::Status::OK);
  });
  return call;
}

}  // namespace sluice
