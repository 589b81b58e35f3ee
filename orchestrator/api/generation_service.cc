#include "orchestrator/api/generation_service.h"

#include <google/protobuf/descriptor.h>

#include <utility>

#include "absl/time/clock.h"
#include "orchestrator/api/adapter_check.h"
#include "orchestrator/api/caller.h"
#include "orchestrator/api/embed_call.h"
#include "orchestrator/api/generate_call.h"
#include "orchestrator/api/request_attributes.h"
#include "orchestrator/api/request_check.h"
#include "orchestrator/api/score_call.h"
#include "orchestrator/api/status_message.h"
#include "orchestrator/api/unary_call.h"
#include "orchestrator/api/writer_stream.h"
#include "services/common/call_deadline.h"
#include "services/common/utf8_text.h"

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

template <class Response>
auto AnswerTo(UnaryCall* call) {
  return [call](const absl::StatusOr<Response>& answer) { call->Answer(answer); };
}

}  // namespace

GenerationService::GenerationService(ModelDescription model, Engine* engine,
                                     ConstraintPreparer* constraints, TokenizerClient* tokenizer,
                                     TokenizerWatch* watch, std::string tokenizer_address,
                                     const TenantBook* tenants, const Authenticator* authenticator,
                                     RequestMetrics* metrics, const RequestTracer* tracer,
                                     ConnectionGuard* guard, ClientErrors errors,
                                     AdapterRegistry* adapters)
    : model_(std::move(model)),
      engine_(engine),
      constraints_(constraints),
      tokenizer_(tokenizer),
      watch_(watch),
      tokenizer_address_(std::move(tokenizer_address)),
      tenants_(tenants),
      admission_(authenticator, guard),
      metrics_(metrics),
      tracer_(tracer),
      errors_(std::move(errors)),
      started_(absl::Now()),
      prompts_(&model_, tokenizer, watch),
      adapters_(adapters) {
  Serve("Generate", &GenerationService::Generate);
  Serve("Score", &GenerationService::Score);
  Serve("Tokenize", &GenerationService::Tokenize);
  Serve("Detokenize", &GenerationService::Detokenize);
  Serve("ApplyChatTemplate", &GenerationService::ApplyChatTemplate);
  Serve("GetVocabulary", &GenerationService::GetVocabulary);
  Serve("GetModel", &GenerationService::GetModel);
  Serve("GetStatus", &GenerationService::GetStatus);
  Serve("LoadAdapter", &GenerationService::LoadAdapter);
  Serve("UnloadAdapter", &GenerationService::UnloadAdapter);
  Serve("ListAdapters", &GenerationService::ListAdapters);
}

void GenerationService::Serve(
    const std::string& method,
    Reactor* (GenerationService::*handler)(grpc::CallbackServerContext* context)) {
  const int index = google::protobuf::DescriptorPool::generated_pool()
                        ->FindServiceByName(v1::GenerationService::service_full_name())
                        ->FindMethodByName(method)
                        ->index();
  // On the wire a unary call is a stream of one message each way.
  MarkMethodStreamed(index, nullptr);
  MarkMethodRawCallback(index,
                        new grpc::internal::CallbackBidiHandler<grpc::ByteBuffer, grpc::ByteBuffer>(
                            [this, handler](grpc::CallbackServerContext* context) {
                              return (this->*handler)(context);
                            }));
}

GenerationService::Reactor* GenerationService::Generate(grpc::CallbackServerContext* context) {
  const std::shared_ptr<WriterStream::Writer> writer = WriterStream::Writer::Start();
  const auto stream = std::make_shared<WriterStream>(writer);
  GenerateOrigin origin = {.tenant = admission_.TenantOf(*context),
                           .trace = TraceOf(*context),
                           .deadline = DeadlineOf(*context)};
  if (!origin.tenant.ok()) {
    StartGenerate(origin, grpc::ByteBuffer(), stream);
    return writer.get();
  }
  writer->ReadRequest([this, peer = context->peer(), origin = std::move(origin),
                       stream](absl::StatusOr<grpc::ByteBuffer> request) {
    if (!request.ok()) return stream->Close(request.status());
    admission_.OnMessage(peer, request->Length());
    StartGenerate(origin, *request, stream);
  });
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
                       .adapters = adapters_,
                       .errors = errors_,
                       .tenant = origin.tenant.value_or(""),
                       .tenant_class = tenants_->ClassOf(origin.tenant.value_or("")),
                       .trace = TraceCall(origin.trace, "Generate", operation),
                       .metrics = metrics_,
                       .tracer = tracer_},
                      std::move(parsed), origin.deadline, std::move(stream));
}

template <class Request, class Response>
GenerationService::Reactor* GenerationService::ServeTexts(
    grpc::CallbackServerContext* context, const char* method, const char* operation,
    void (*serve)(const TextCallContext&, const absl::StatusOr<Request>&, SteadyTime, UnaryCall*)) {
  auto* const call = new UnaryCall(&errors_, method);
  const absl::StatusOr<std::string> tenant = admission_.TenantOf(*context);
  const auto start = [this, call, tenant, method, operation, serve, trace = TraceOf(*context),
                      deadline = DeadlineOf(*context)](const grpc::ByteBuffer& request) {
    serve({.model = model_,
           .prompts = prompts_,
           .tokenizer = *tokenizer_,
           .engine = *engine_,
           .tenants = *tenants_,
           .adapters = adapters_,
           .tenant = tenant.value_or(""),
           .trace = TraceCall(trace, method, operation),
           .tracer = tracer_},
          ParseIf<Request>(tenant.status(), request), deadline, call);
  };
  if (!tenant.ok()) {
    start(grpc::ByteBuffer());
    return call;
  }
  call->ReadRequest(
      [this, call, start, peer = context->peer()](absl::StatusOr<grpc::ByteBuffer> request) {
        if (!request.ok()) return call->Answer<Response>(request.status());
        admission_.OnMessage(peer, request->Length());
        start(*request);
      });
  return call;
}

GenerationService::Reactor* GenerationService::Score(grpc::CallbackServerContext* context) {
  return ServeTexts<v1::ScoreRequest, v1::ScoreResponse>(context, "Score", "score", &StartScore);
}

GenerationService::Reactor* GenerationService::Embed(grpc::CallbackServerContext* context) {
  return ServeTexts<v1::EmbedRequest, v1::EmbedResponse>(context, "Embed", "embeddings",
                                                         &StartEmbed);
}

GenerationService::Reactor* GenerationService::Rerank(grpc::CallbackServerContext* context) {
  return ServeTexts<v1::RerankRequest, v1::RerankResponse>(context, "Rerank", "rerank",
                                                           &StartRerank);
}

// The call outlives what is asked for it.
RequestContext GenerationService::ContextOf(const grpc::CallbackServerContext& context,
                                            Cancellation* caller) const {
  const std::string tenant = admission_.TenantOf(context).value_or("");
  return {.deadline = DeadlineOf(context),
          .work = {.owner = tenants_->OwnerFor(tenant), .meter = engine_->MeterFor(tenant)},
          .cancellation = std::shared_ptr<Cancellation>(std::shared_ptr<void>(), caller)};
}

template <class Request>
GenerationService::Reactor* GenerationService::ServeUnary(
    grpc::CallbackServerContext* context, const MessageLimits& limits,
    std::function<void(Request request, UnaryCall* call)> serve) {
  auto* const call = new UnaryCall(&errors_, Request::descriptor()->name());
  if (const absl::Status admitted = admission_.Check(*context); !admitted.ok()) {
    call->Answer<Request>(admitted);
    return call;
  }
  call->ReadRequest([this, call, limits, peer = context->peer(),
                     serve = std::move(serve)](const absl::StatusOr<grpc::ByteBuffer>& bytes) {
    if (!bytes.ok()) return call->Answer<Request>(bytes.status());
    admission_.OnMessage(peer, bytes->Length());
    absl::StatusOr<Request> request = ParseMessage<Request>(*bytes, limits);
    if (!request.ok()) return call->Answer<Request>(request.status());
    const absl::Status known = CheckKnownFields(*request);
    if (!known.ok()) return call->Answer<Request>(known);
    serve(*std::move(request), call);
  });
  return call;
}

GenerationService::Reactor* GenerationService::Tokenize(grpc::CallbackServerContext* context) {
  return ServeUnary<v1::TokenizeRequest>(
      context, {}, [this, context](v1::TokenizeRequest request, UnaryCall* call) {
        tokenizer_->Tokenize(std::move(request), ContextOf(*context, call->caller()),
                             AnswerTo<v1::TokenizeResponse>(call));
      });
}

GenerationService::Reactor* GenerationService::Detokenize(grpc::CallbackServerContext* context) {
  return ServeUnary<v1::DetokenizeRequest>(
      context, {}, [this, context](v1::DetokenizeRequest request, UnaryCall* call) {
        tokenizer_->Detokenize(std::move(request), ContextOf(*context, call->caller()),
                               AnswerTo<v1::DetokenizeResponse>(call));
      });
}

GenerationService::Reactor* GenerationService::GetVocabulary(grpc::CallbackServerContext* context) {
  return ServeUnary<v1::GetVocabularyRequest>(
      context, kSmall, [this, context](v1::GetVocabularyRequest request, UnaryCall* call) {
        tokenizer_->GetVocabulary(std::move(request), ContextOf(*context, call->caller()),
                                  AnswerTo<v1::GetVocabularyResponse>(call));
      });
}

GenerationService::Reactor* GenerationService::ApplyChatTemplate(
    grpc::CallbackServerContext* context) {
  return ServeUnary<v1::ApplyChatTemplateRequest>(
      context, {}, [this, context](v1::ApplyChatTemplateRequest request, UnaryCall* call) {
        tokenizer_->ApplyChatTemplate(std::move(request), ContextOf(*context, call->caller()),
                                      AnswerTo<v1::ApplyChatTemplateResponse>(call));
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
  response.set_generates(model_.generates);
  if (model_.embedder.has_value()) {
    response.set_embedding_dimensions(model_.embedder->dimensions);
    response.set_max_text_tokens(model_.max_text_tokens);
    response.mutable_labels()->Add(model_.embedder->labels.begin(), model_.embedder->labels.end());
    for (const EmbedderSpec::Prompt& prompt : model_.embedder->prompts) {
      response.add_prompt_names(prompt.name);
    }
  }
  response.mutable_eos_token_ids()->Add(model_.eos_token_ids.begin(), model_.eos_token_ids.end());
  return response;
}

GenerationService::Reactor* GenerationService::GetModel(grpc::CallbackServerContext* context) {
  return ServeUnary<v1::GetModelRequest>(
      context, kSmall,
      [this, deadline = DeadlineOf(*context)](const v1::GetModelRequest&, UnaryCall* call) {
        watch_->Get(deadline, [call, model = DescribeModel()](
                                  absl::StatusOr<v1::GetTokenizerInfoResponse> info) mutable {
          if (!info.ok()) return call->Answer<v1::GetModelResponse>(info.status());
          model.set_has_tokenizer(info->has_tokenizer());
          model.set_has_chat_template(info->has_chat_template());
          call->Answer<v1::GetModelResponse>(std::move(model));
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
  tokenizer.set_detail(CleanUtf8(status.message()));
  FillStatus(engine_->status(), response);
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

GenerationService::Reactor* GenerationService::GetStatus(grpc::CallbackServerContext* context) {
  return ServeUnary<v1::GetStatusRequest>(
      context, kSmall, [this, context](const v1::GetStatusRequest& request, UnaryCall* call) {
        const absl::StatusOr<LedgerQuery> query = QueryOf(*context, request);
        if (!query.ok()) return call->Answer<v1::GetStatusResponse>(query.status());
        v1::GetStatusResponse status = DescribeStatus();
        // Where the parts are is for operators.
        const bool hides = query->tenant.has_value();
        if (hides) HideLocations(errors_, status);
        if (!query->all && query->name.empty()) {
          return call->Answer<v1::GetStatusResponse>(std::move(status));
        }
        engine_->Report(*query, [this, call, hides,
                                 status = std::move(status)](const LedgerReport& report) mutable {
          FillLedger(report, status);
          for (int i = 0; hides && i < status.requests_size(); ++i) {
            v1::RequestStatus& of_one = *status.mutable_requests(i);
            of_one.set_detail(errors_.Detail(of_one.detail()));
          }
          call->Answer<v1::GetStatusResponse>(std::move(status));
        });
      });
}

// Where nothing is to be proved, a tenant's name proves nothing: the rules of all others hold.
absl::Status GenerationService::CheckLoadsAdapters(
    const grpc::CallbackServerContext& context) const {
  std::string tenant;
  if (admission_.asks_for_proof()) {
    absl::StatusOr<std::string> proved = admission_.TenantOf(context);
    if (!proved.ok()) return proved.status();
    tenant = *std::move(proved);
  }
  if (adapters_ != nullptr && tenants_->LoadsAdapters(tenant)) return absl::OkStatus();
  return absl::PermissionDeniedError(
      adapters_ == nullptr
          ? "this server takes no adapters while it runs"
          : "the operator's rules (--tenants) do not say \"loads_adapters\" of this caller");
}

GenerationService::Reactor* GenerationService::LoadAdapter(grpc::CallbackServerContext* context) {
  return ServeUnary<v1::LoadAdapterRequest>(
      context, kSmall, [this, context](const v1::LoadAdapterRequest& request, UnaryCall* call) {
        absl::Status status = CheckLoadsAdapters(*context);
        if (status.ok()) status = CheckComputesAdapters(*engine_);
        if (status.ok()) {
          status = adapters_->Load(request.name(), request.folder(), request.replace());
        }
        if (!status.ok()) return call->Answer<v1::LoadAdapterResponse>(status);
        call->Answer<v1::LoadAdapterResponse>(v1::LoadAdapterResponse());
      });
}

GenerationService::Reactor* GenerationService::UnloadAdapter(grpc::CallbackServerContext* context) {
  return ServeUnary<v1::UnloadAdapterRequest>(
      context, kSmall, [this, context](const v1::UnloadAdapterRequest& request, UnaryCall* call) {
        absl::Status status = CheckLoadsAdapters(*context);
        if (status.ok()) status = adapters_->Unload(request.name());
        if (!status.ok()) return call->Answer<v1::UnloadAdapterResponse>(status);
        call->Answer<v1::UnloadAdapterResponse>(v1::UnloadAdapterResponse());
      });
}

GenerationService::Reactor* GenerationService::ListAdapters(grpc::CallbackServerContext* context) {
  return ServeUnary<v1::ListAdaptersRequest>(
      context, kSmall, [this, context](const v1::ListAdaptersRequest&, UnaryCall* call) {
        v1::ListAdaptersResponse response;
        response.set_base_model(model_.name);
        // Where files are is for operators.
        const bool shows_folders = CheckLoadsAdapters(*context).ok();
        if (adapters_ != nullptr) {
          for (AdapterDescription& adapter : adapters_->List()) {
            v1::AdapterInfo& info = *response.add_adapters();
            info.set_name(adapter.name);
            if (shows_folders) info.set_folder(adapter.folder);
            info.set_max_rank(adapter.max_rank);
          }
        }
        call->Answer<v1::ListAdaptersResponse>(std::move(response));
      });
}

}  // namespace sluice
