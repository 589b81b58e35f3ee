#include "orchestrator/text/tokenizer_client.h"

#include <grpcpp/client_context.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/common/call_deadline.h"
#include "services/common/status.h"
#include "services/common/steady_time.h"
#include "services/messages/expected_tokenizer.h"
#include "services/work/work_metadata.h"

namespace sluice {
namespace {

// A hang ends within the first two, by whoever supervises the tokenizer.
constexpr int kMostAttempts = 3;
// A call that ends so shortly before its own deadline has reached that.
constexpr absl::Duration kNearlyThere = absl::Milliseconds(5);

}  // namespace

TokenizerClient::TokenizerClient(std::shared_ptr<grpc::Channel> channel, Options options)
    : shared_(new Shared{.channel = channel,
                         .stub = v1::TokenizerService::NewStub(channel),
                         .options = options,
                         .mutex = {},
                         .times = StepTimes(options.hang_timeout),
                         .num_bytes = 0,
                         .num_bytes_of = {}}) {}

absl::Status TokenizerClient::Shared::Reserve(const std::string& tenant, size_t bytes) {
  absl::MutexLock lock(&mutex);
  const auto found = num_bytes_of.find(tenant);
  const size_t used = found == num_bytes_of.end() ? 0 : found->second;
  const size_t free = options.max_bytes - std::min(options.max_bytes, num_bytes);
  if (used + bytes > free) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "texts under way: the tenant has ", used, " bytes with the tokenizer and asks for ", bytes,
        " more; accepted: as many as are free, now ", free, " of ", options.max_bytes));
  }
  num_bytes += bytes;
  num_bytes_of[tenant] = used + bytes;
  return absl::OkStatus();
}

void TokenizerClient::Shared::Release(const std::string& tenant, size_t bytes) {
  absl::MutexLock lock(&mutex);
  num_bytes -= bytes;
  const auto found = num_bytes_of.find(tenant);
  if ((found->second -= bytes) == 0) num_bytes_of.erase(found);
}

// One call, made until it is answered.
template <class Request, class Response>
struct TokenizerClient::Attempts : std::enable_shared_from_this<Attempts<Request, Response>> {
  using Method = void (v1::TokenizerService::Stub::async::*)(grpc::ClientContext*, const Request*,
                                                             Response*,
                                                             std::function<void(grpc::Status)>);

  // REQUIRES: `bytes` are reserved for the tenant of `work`.
  Attempts(std::shared_ptr<Shared> owner, Method which, Request asked, size_t bytes,
           SteadyTime until, WorkFor work, Callback<Response> then)
      : shared(std::move(owner)),
        method(which),
        request(std::move(asked)),
        num_bytes(bytes),
        deadline(until),
        work(std::move(work)),
        callback(std::move(then)),
        connect_by(SteadyTime::Now() + shared->options.connect_time),
        size(1 + static_cast<int>(num_bytes >> 10)) {}
  ~Attempts() { shared->Release(work.owner.tenant, num_bytes); }

  void Try() {
    ++num_attempts;
    absl::Duration bound;
    {
      absl::MutexLock lock(&shared->mutex);
      bound = shared->times.Bound(size);
    }
    auto next = std::make_shared<grpc::ClientContext>();
    next->set_wait_for_ready(true);
    SetDeadline(*next, std::min(deadline, SteadyTime::Now() + bound * patience));
    SetWork(work, *next);
    ExpectTokenizer(*next, shared->options.digest);
    bool left = false;
    {
      absl::MutexLock lock(&mutex);
      context = next;
      left = cancelled;
    }
    if (left) return callback(absl::CancelledError("the caller left"));
    begun = SteadyTime::Now();
    (shared->stub->async()->*method)(
        next.get(), &request, &response,
        [self = this->shared_from_this()](const grpc::Status& status) { self->End(status); });
  }

  // Ends the attempt under way, or the next one before it begins.
  void Cancel() {
    absl::MutexLock lock(&mutex);
    cancelled = true;
    if (context != nullptr) context->TryCancel();
  }

  void End(const grpc::Status& status) {
    if (const absl::Status budget = work.Add(WorkOf(*Context())); !budget.ok()) {
      return callback(budget);
    }
    const SteadyTime now = SteadyTime::Now();
    const bool hangs =
        status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED && now + kNearlyThere < deadline;
    // A tokenizer that is stopped cancels the calls that it has begun.
    const bool is_stopped =
        status.error_code() == grpc::StatusCode::CANCELLED && !IsCancelledByCaller();
    const bool is_lost =
        hangs || is_stopped || status.error_code() == grpc::StatusCode::UNAVAILABLE;
    if (is_lost && now < connect_by && !IsConnected()) return Try();
    if (hangs && shared->options.answers != nullptr && shared->options.answers()) {
      // It waits for others of its tenant, or is more work than any before.
      patience *= 4;
      --num_attempts;
      return Try();
    }
    {
      absl::MutexLock lock(&shared->mutex);
      if (status.ok()) shared->times.Completed(size, SteadyTime::Now() - begun);
      if (hangs) shared->times.GaveUp();
    }
    if ((hangs || is_stopped) && num_attempts < kMostAttempts) return Try();
    if (is_stopped) return callback(absl::UnavailableError("the tokenizer was stopped"));
    if (hangs) return callback(absl::UnavailableError("the tokenizer hangs"));
    if (status.error_code() == grpc::StatusCode::ABORTED) {
      return callback(absl::UnavailableError(status.error_message()));
    }
    if (!status.ok()) return callback(FromGrpc(status));
    callback(std::move(response));
  }

  bool IsConnected() const {
    return shared->channel->GetState(/*try_to_connect=*/false) == GRPC_CHANNEL_READY;
  }

  bool IsCancelledByCaller() {
    absl::MutexLock lock(&mutex);
    return cancelled;
  }

  std::shared_ptr<grpc::ClientContext> Context() {
    absl::MutexLock lock(&mutex);
    return context;
  }

  const std::shared_ptr<Shared> shared;
  const Method method;
  const Request request;
  const size_t num_bytes;
  const SteadyTime deadline;
  const WorkFor work;
  const Callback<Response> callback;
  const SteadyTime connect_by;
  const int size;
  absl::Mutex mutex;
  std::shared_ptr<grpc::ClientContext> context ABSL_GUARDED_BY(mutex);  // of the last attempt
  bool cancelled ABSL_GUARDED_BY(mutex) = false;
  Response response;
  SteadyTime begun;
  int num_attempts = 0;
  double patience = 1;  // with an attempt, in bounds
};

template <class Request, class Response, class Method>
void TokenizerClient::Call(Method method, Request request, const RequestContext& context,
                           Callback<Response> callback) {
  const absl::Status budget = context.work.Add(absl::ZeroDuration());
  if (!budget.ok()) return callback(budget);
  const size_t bytes = 1 + request.ByteSizeLong();
  const absl::Status room = shared_->Reserve(context.work.owner.tenant, bytes);
  if (!room.ok()) return callback(room);
  const auto attempts = std::make_shared<Attempts<Request, Response>>(
      shared_, method, std::move(request), bytes, context.deadline, context.work,
      std::move(callback));
  // Does not keep the call: its memory goes with its answer.
  if (context.cancellation != nullptr) {
    context.cancellation->OnCancel([weak = std::weak_ptr<Attempts<Request, Response>>(attempts)] {
      if (const auto call = weak.lock()) call->Cancel();
    });
  }
  attempts->Try();
}

// The async interface overloads each method; these name the one that takes a callback.
template <class Request, class Response>
using CallbackMethod = void (v1::TokenizerService::Stub::async::*)(
    grpc::ClientContext*, const Request*, Response*, std::function<void(grpc::Status)>);

void TokenizerClient::Tokenize(v1::TokenizeRequest request, const RequestContext& context,
                               Callback<v1::TokenizeResponse> callback) {
  CallbackMethod<v1::TokenizeRequest, v1::TokenizeResponse> method =
      &v1::TokenizerService::Stub::async::Tokenize;
  Call(method, std::move(request), context, std::move(callback));
}

void TokenizerClient::Detokenize(v1::DetokenizeRequest request, const RequestContext& context,
                                 Callback<v1::DetokenizeResponse> callback) {
  CallbackMethod<v1::DetokenizeRequest, v1::DetokenizeResponse> method =
      &v1::TokenizerService::Stub::async::Detokenize;
  Call(method, std::move(request), context, std::move(callback));
}

void TokenizerClient::ApplyChatTemplate(v1::ApplyChatTemplateRequest request,
                                        const RequestContext& context,
                                        Callback<v1::ApplyChatTemplateResponse> callback) {
  CallbackMethod<v1::ApplyChatTemplateRequest, v1::ApplyChatTemplateResponse> method =
      &v1::TokenizerService::Stub::async::ApplyChatTemplate;
  Call(method, std::move(request), context, std::move(callback));
}

void TokenizerClient::GetVocabulary(v1::GetVocabularyRequest request, const RequestContext& context,
                                    Callback<v1::GetVocabularyResponse> callback) {
  CallbackMethod<v1::GetVocabularyRequest, v1::GetVocabularyResponse> method =
      &v1::TokenizerService::Stub::async::GetVocabulary;
  Call(method, std::move(request), context, std::move(callback));
}

}  // namespace sluice
