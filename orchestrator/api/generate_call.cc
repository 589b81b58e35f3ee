#include "orchestrator/api/generate_call.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "orchestrator/api/adapter_check.h"
#include "orchestrator/api/beam_check.h"
#include "orchestrator/api/best_of_sink.h"
#include "orchestrator/api/embed_check.h"
#include "orchestrator/api/messages.h"
#include "orchestrator/api/request_attributes.h"
#include "orchestrator/api/request_check.h"
#include "orchestrator/api/word_tokens.h"
#include "services/common/random.h"
#include "services/messages/num_returned.h"
#include "services/routing/request_keys.h"

namespace sluice {
GenerateCall::GenerateCall(const Context& context, v1::GenerateRequest request, SteadyTime deadline,
                           std::shared_ptr<CallStream> stream)
    : context_(context),
      request_(std::move(request)),
      deadline_(deadline),
      stream_(std::move(stream)) {
  if (request_.request_id().empty()) {
    request_.set_request_id(absl::StrCat(absl::Hex(RandomNumber(), absl::kZeroPad16)));
  }
  if (context_.trace.span != nullptr) DescribeRequest(request_, *context_.trace.span);
}

void GenerateCall::Start(const Context& context, absl::StatusOr<v1::GenerateRequest> request,
                         SteadyTime deadline, std::shared_ptr<CallStream> stream) {
  if (!request.ok()) {
    CountRefused(context, request.status());
    return stream->Close(request.status());
  }
  auto call = std::shared_ptr<GenerateCall>(
      new GenerateCall(context, *std::move(request), deadline, std::move(stream)));
  call->stream_->Watch({.on_cancel = [call] { call->Cancel(); },
                        .on_reading =
                            [weak = call->weak_from_this()](bool reads) {
                              if (const auto call = weak.lock()) call->SetReading(reads);
                            }});
  call->Begin();
}

void GenerateCall::Begin() {
  absl::Status status = CheckGenerates(context_.model);
  if (status.ok()) status = CheckGenerate(request_, context_.model);
  status.Update(context_.tenants.CheckPriority(context_.tenant, request_.priority()));
  if (!status.ok()) return Refuse(status);
  context_.prompts.Resolve(request_, AskingContext(),
                           [self = shared_from_this()](absl::StatusOr<ResolvedPrompt> prompt) {
                             self->Prepare(std::move(prompt));
                           });
}

RequestContext GenerateCall::AskingContext() const {
  return {.deadline = deadline_,
          .work = {.owner = context_.tenants.OwnerFor(context_.tenant), .meter = meter_},
          .cancellation = caller_};
}

void GenerateCall::Prepare(absl::StatusOr<ResolvedPrompt> prompt) {
  if (!prompt.ok()) return Refuse(prompt.status());
  const int64_t num_tokens = std::ssize(prompt->tokens) - FilledSource(prompt->source_positions);
  const absl::Status fits = CheckLength(request_, num_tokens, context_.model);
  if (!fits.ok()) return Refuse(fits);
  if (!prompt->has_tokenizer && !request_.stop().stop_strings().empty()) {
    return Refuse(absl::FailedPreconditionError(
        "stop.stop_strings need text, and this model has no tokenizer; use stop.stop_token_ids"));
  }
  if (request_.bad_words().empty() && request_.dry_breakers().empty()) {
    return PrepareConstraint(*std::move(prompt));
  }
  if (!prompt->has_tokenizer) {
    return Refuse(absl::FailedPreconditionError(
        "bad_words and dry_breakers need text, and this model has no tokenizer; use "
        "sampling.bad_words_ids and sampling.dry_breaker_token_ids"));
  }
  ResolveWords(request_, &context_.tokenizer, AskingContext(),
               [self = shared_from_this(),
                prompt = *std::move(prompt)](absl::StatusOr<v1::SamplingOptions> sampling) mutable {
                 if (!sampling.ok()) return self->Refuse(sampling.status());
                 *self->request_.mutable_sampling() = *std::move(sampling);
                 const absl::Status status =
                     CheckSampling(self->request_.sampling(), self->context_.model);
                 if (!status.ok()) return self->Refuse(status);
                 self->PrepareConstraint(std::move(prompt));
               });
}

void GenerateCall::PrepareConstraint(ResolvedPrompt prompt) {
  if (!request_.has_constraint()) return Submit(std::move(prompt), nullptr);
  context_.constraints.Prepare(
      request_.constraint(), AskingContext(),
      [self = shared_from_this(), prompt = std::move(prompt)](
          absl::StatusOr<std::shared_ptr<const ConstraintSpec>> constraint) mutable {
        if (!constraint.ok()) return self->Refuse(constraint.status());
        self->Submit(std::move(prompt), *std::move(constraint));
      });
}

void GenerateCall::Submit(ResolvedPrompt prompt, std::shared_ptr<const ConstraintSpec> constraint) {
  absl::StatusOr<std::string> adapter =
      AdapterOf(context_.adapters, context_.engine, request_.adapter());
  if (!adapter.ok()) return Refuse(adapter.status());
  EngineRequest request =
      EngineRequestFrom(request_, context_.model, std::move(prompt.tokens), RandomNumber());
  request.source_positions = prompt.source_positions;
  if (context_.model.source.has_value()) request.max_written = context_.model.source->max_written;
  num_prompt_tokens_ = request.num_prompt_tokens();
  request.wants_text = prompt.has_tokenizer;
  request.constraint = std::move(constraint);
  request.adapter = *std::move(adapter);
  request.tenant = context_.tenant;
  request.work = meter_->total();
  request.cache_salt = context_.tenants.CacheDomain(context_.tenant, request_.cache_salt());
  request.prompt_keys = std::make_shared<const PromptKeys>(KeysOf(request_));
  cache_scope_ = CacheScope(request.cache_salt);
  request.trace_id = context_.trace.trace_id;
  request.span = context_.trace.span;
  request.arrived = arrived_;
  if (deadline_ != SteadyTime::InfiniteFuture()) request.deadline = deadline_;
  seed_ = request.sampling.seed;
  absl::MutexLock lock(&mutex_);
  if (cancelled_) return CountRefused(context_, absl::CancelledError("the caller left"));
  std::shared_ptr<RequestSink> sink = shared_from_this();
  if (context_.metrics != nullptr) {
    sink = context_.metrics->Measure(std::move(sink), context_.tenant_class, OperationOf(request_));
  }
  if (request.num_sequences > NumReturned(request_)) {
    std::vector<std::vector<TokenId>> resumed;
    for (const v1::ResumedSequence& sequence : request_.resume()) {
      resumed.emplace_back(sequence.token_ids().begin(), sequence.token_ids().end());
    }
    sink = std::make_shared<BestOfSink>(request.num_sequences, NumReturned(request_),
                                        std::move(resumed), std::move(sink));
  }
  submitted_ = context_.engine.Submit(std::move(request), std::move(sink));
  if (!reads_) context_.engine.SetBackpressured(*submitted_, true);
}

void GenerateCall::Refuse(const absl::Status& status) {
  CountRefused(context_, status);
  stream_->Close(context_.errors.ForClient(request_.request_id(), status));
}

void GenerateCall::CountRefused(const Context& context, const absl::Status& status) {
  if (context.metrics != nullptr) context.metrics->CountRefused(status, context.tenant_class);
  if (context.tracer != nullptr) context.tracer->End(context.trace, status);
}

void GenerateCall::Cancel() {
  {
    absl::MutexLock lock(&mutex_);
    cancelled_ = true;
    if (submitted_.has_value()) context_.engine.Cancel(*submitted_);
  }
  caller_->Cancel();
}

void GenerateCall::SetReading(bool reads) {
  absl::MutexLock lock(&mutex_);
  reads_ = reads;
  if (submitted_.has_value()) context_.engine.SetBackpressured(*submitted_, !reads);
}

void GenerateCall::OnChunk(ChunkEvent chunk) {
  v1::GenerateResponse response;
  *response.mutable_chunk() = ToProto(std::move(chunk), request_.has_logprobs());
  Send(std::move(response));
}

void GenerateCall::OnFinished(RequestEnd end) {
  v1::GenerateResponse response;
  v1::Finished& finished = *response.mutable_finished();
  finished = ToProto(end, request_, context_.model);
  finished.set_request_id(request_.request_id());
  finished.set_seed(seed_);
  Send(std::move(response));
  stream_->Close(absl::OkStatus());
}

void GenerateCall::Send(v1::GenerateResponse response) {
  if (!std::exchange(sent_, true)) {
    response.mutable_started()->set_request_id(request_.request_id());
    response.mutable_started()->set_seed(seed_);
    response.mutable_started()->set_num_prompt_tokens(num_prompt_tokens_);
    response.mutable_started()->set_cache_scope(cache_scope_);
  }
  stream_->Send(std::move(response));
}

void GenerateCall::OnFailed(absl::Status status) {
  stream_->Close(context_.errors.ForClient(request_.request_id(), status));
}

}  // namespace sluice
