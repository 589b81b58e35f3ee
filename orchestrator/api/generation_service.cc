#include "orchestrator/api/generation_service.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "orchestrator/api/caller.h"
#include "orchestrator/api/generate_call.h"
#include "orchestrator/api/request_check.h"
#include "orchestrator/api/score_call.h"
#include "services/common/raw_message.h"
#include "services/common/status.h"

namespace sluice {
namespace {

// How long a call may wait for the tokenizer where its client set no deadline.
constexpr absl::Duration kTokenizerTimeout = absl::Seconds(60);

absl::Time DeadlineOf(const grpc::CallbackServerContext& context) {
  const auto deadline = context.deadline();
  return deadline == std::chrono::system_clock::time_point::max() ? absl::InfiniteFuture()
                                                                  : absl::FromChrono(deadline);
}

absl::Time TokenizerDeadline(const grpc::CallbackServerContext& context) {
  return std::min(DeadlineOf(context), absl::Now() + kTokenizerTimeout);
}

// Answers a unary call with what another service answered.
template <class Response>
TokenizerClient::Callback<Response> Forward(grpc::ServerUnaryReactor* call, Response* response) {
  return [call, response](absl::StatusOr<Response> answer) {
    const absl::Status status = answer.status();
    if (status.ok()) *response = *std::move(answer);
    call->Finish(ToGrpc(status));
  };
}

// The request of a caller who was admitted; nothing of another's is looked at.
template <class Request>
absl::StatusOr<Request> ParseAdmitted(const absl::Status& admitted, const grpc::ByteBuffer& bytes) {
  if (!admitted.ok()) return admitted;
  return ParseMessage<Request>(bytes);
}

grpc::ServerUnaryReactor* Refuse(grpc::CallbackServerContext& context, const absl::Status& status) {
  grpc::ServerUnaryReactor* call = context.DefaultReactor();
  call->Finish(ToGrpc(status));
  return call;
}

}  // namespace

GenerationService::GenerationService(ModelDescription model, Engine* engine,
                                     TokenizerClient* tokenizer, TokenizerWatch* watch,
                                     std::string tokenizer_address, const TenantBook* tenants,
                                     const Authenticator* authenticator, RequestMetrics* metrics)
    : model_(std::move(model)),
      engine_(engine),
      tokenizer_(tokenizer),
      watch_(watch),
      tokenizer_address_(std::move(tokenizer_address)),
      tenants_(tenants),
      authenticator_(authenticator),
      metrics_(metrics),
      started_(absl::Now()),
      prompts_(&model_, tokenizer, watch) {}

grpc::ServerWriteReactor<grpc::ByteBuffer>* GenerationService::Generate(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* request) {
  absl::StatusOr<std::string> tenant = AdmitTenant(*context);
  return GenerateCall::Start({.model = model_,
                              .prompts = prompts_,
                              .engine = *engine_,
                              .tenants = *tenants_,
                              .tenant = tenant.value_or(""),
                              .metrics = metrics_},
                             ParseAdmitted<v1::GenerateRequest>(tenant.status(), *request),
                             DeadlineOf(*context));
}

grpc::ServerUnaryReactor* GenerationService::Score(grpc::CallbackServerContext* context,
                                                   const grpc::ByteBuffer* request,
                                                   grpc::ByteBuffer* response) {
  absl::StatusOr<std::string> tenant = AdmitTenant(*context);
  return new ScoreCall({.model = model_,
                        .prompts = prompts_,
                        .engine = *engine_,
                        .tenants = *tenants_,
                        .tenant = tenant.value_or("")},
                       ParseAdmitted<v1::ScoreRequest>(tenant.status(), *request), *response,
                       DeadlineOf(*context));
}

grpc::ServerUnaryReactor* GenerationService::Tokenize(grpc::CallbackServerContext* context,
                                                      const v1::TokenizeRequest* request,
                                                      v1::TokenizeResponse* response) {
  grpc::ServerUnaryReactor* call = context->DefaultReactor();
  absl::Status status = Admit(*context);
  if (status.ok()) status = CheckKnownFields(*request);
  if (!status.ok()) {
    call->Finish(ToGrpc(status));
  } else {
    tokenizer_->Tokenize(*request, TokenizerDeadline(*context), Forward(call, response));
  }
  return call;
}

grpc::ServerUnaryReactor* GenerationService::Detokenize(grpc::CallbackServerContext* context,
                                                        const v1::DetokenizeRequest* request,
                                                        v1::DetokenizeResponse* response) {
  grpc::ServerUnaryReactor* call = context->DefaultReactor();
  absl::Status status = Admit(*context);
  if (status.ok()) status = CheckKnownFields(*request);
  if (!status.ok()) {
    call->Finish(ToGrpc(status));
  } else {
    tokenizer_->Detokenize(*request, TokenizerDeadline(*context), Forward(call, response));
  }
  return call;
}

grpc::ServerUnaryReactor* GenerationService::GetVocabulary(grpc::CallbackServerContext* context,
                                                           const v1::GetVocabularyRequest* request,
                                                           v1::GetVocabularyResponse* response) {
  if (const absl::Status status = Admit(*context); !status.ok()) return Refuse(*context, status);
  grpc::ServerUnaryReactor* call = context->DefaultReactor();
  if (const absl::Status status = CheckKnownFields(*request); !status.ok()) {
    call->Finish(ToGrpc(status));
  } else {
    tokenizer_->GetVocabulary(*request, TokenizerDeadline(*context), Forward(call, response));
  }
  return call;
}

grpc::ServerUnaryReactor* GenerationService::ApplyChatTemplate(
    grpc::CallbackServerContext* context, const v1::ApplyChatTemplateRequest* request,
    v1::ApplyChatTemplateResponse* response) {
  if (const absl::Status status = Admit(*context); !status.ok()) return Refuse(*context, status);
  grpc::ServerUnaryReactor* call = context->DefaultReactor();
  if (const absl::Status status = CheckKnownFields(*request); !status.ok()) {
    call->Finish(ToGrpc(status));
  } else {
    tokenizer_->ApplyChatTemplate(*request, TokenizerDeadline(*context), Forward(call, response));
  }
  return call;
}

grpc::ServerUnaryReactor* GenerationService::GetModel(grpc::CallbackServerContext* context,
                                                      const v1::GetModelRequest*,
                                                      v1::GetModelResponse* response) {
  if (const absl::Status status = Admit(*context); !status.ok()) return Refuse(*context, status);
  response->set_name(model_.name);
  response->set_architecture(model_.architecture);
  response->set_vocabulary_size(model_.vocabulary_size);
  response->set_max_positions(model_.max_positions);
  response->set_num_layers(model_.num_layers);
  response->set_hidden_size(model_.hidden_size);
  response->set_weights(model_.weights);
  response->mutable_eos_token_ids()->Add(model_.eos_token_ids.begin(), model_.eos_token_ids.end());
  grpc::ServerUnaryReactor* call = context->DefaultReactor();
  watch_->Get(TokenizerDeadline(*context),
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

absl::StatusOr<std::string> GenerationService::AdmitTenant(
    const grpc::CallbackServerContext& context) const {
  if (authenticator_ == nullptr) return TenantOf(context);
  absl::StatusOr<Caller> caller = authenticator_->Admit(context);
  if (!caller.ok()) return caller.status();
  return caller->tenant;
}

void GenerationService::FillStatus(v1::GetStatusResponse& response) const {
  const EngineStatus status = engine_->status();
  response.set_serving(status.serving);
  response.set_epoch(status.epoch);
  for (const ReplicaProcess& process : engine_->processes()) {
    v1::ProcessStatus& message = *response.add_processes();
    message.set_service(process.service);
    message.set_address(process.address);
    message.set_state(process.ready ? v1::PROCESS_STATE_READY : v1::PROCESS_STATE_CONNECTING);
    message.set_stage(process.stage);
    message.set_rank(process.rank);
    message.set_detail(process.detail);
    message.set_weight_bytes(process.weight_bytes);
    message.set_kv_bytes(process.kv_bytes);
    message.set_arithmetic(process.arithmetic);
  }
  const KvCacheStatistics& kv_cache = status.scheduler.kv_cache;
  v1::KvCacheStatus& blocks = *response.mutable_kv_cache();
  blocks.set_block_size(kv_cache.block_size);
  blocks.set_num_blocks(kv_cache.total_blocks);
  blocks.set_num_used_blocks(kv_cache.used_blocks);
  blocks.set_num_free_blocks(kv_cache.free_blocks);
  blocks.set_num_cached_blocks(kv_cache.cached_blocks);
  blocks.set_num_shared_blocks(kv_cache.shared_blocks);
  blocks.set_num_hit_positions(kv_cache.hit_positions);
  blocks.set_num_copied_blocks(kv_cache.copied_blocks);
  blocks.set_num_evicted_blocks(kv_cache.evicted_blocks);
  response.set_num_waiting_sequences(status.scheduler.waiting_sequences +
                                     status.num_unadmitted_requests);
  response.set_num_running_sequences(status.scheduler.running_sequences);
  response.set_num_steps(status.num_steps);
  response.set_num_generated_tokens(status.num_generated_tokens);
  response.set_num_recoveries(status.num_recoveries);
  response.set_num_stages(engine_->topology().num_stages());
  response.set_num_ranks(engine_->topology().num_ranks());
  response.set_model_name(model_.name);
  response.set_uptime_ms(static_cast<uint64_t>(absl::ToInt64Milliseconds(absl::Now() - started_)));
}

grpc::ServerUnaryReactor* GenerationService::GetStatus(grpc::CallbackServerContext* context,
                                                       const v1::GetStatusRequest*,
                                                       v1::GetStatusResponse* response) {
  if (const absl::Status status = Admit(*context); !status.ok()) return Refuse(*context, status);
  grpc::ServerUnaryReactor* call = context->DefaultReactor();
  const absl::Status status = watch_->status();
  v1::ProcessStatus& tokenizer = *response->add_processes();
  tokenizer.set_service("tokenizer");
  tokenizer.set_address(tokenizer_address_);
  tokenizer.set_state(status.ok() ? v1::PROCESS_STATE_READY : v1::PROCESS_STATE_CONNECTING);
  tokenizer.set_detail(std::string(status.message()));
  FillStatus(*response);
  response->set_serving(response->serving() && status.ok());
  call->Finish(grpc::Status::OK);
  return call;
}

}  // namespace sluice
