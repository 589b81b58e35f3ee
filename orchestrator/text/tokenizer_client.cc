#include "orchestrator/text/tokenizer_client.h"

#include <grpcpp/client_context.h>

#include <algorithm>
#include <utility>

#include "services/common/call_deadline.h"
#include "services/common/status.h"
#include "services/common/steady_time.h"

namespace sluice {
namespace {

// A hang ends within the first two, by whoever supervises the tokenizer.
constexpr int kMostAttempts = 3;
// A call that ends so shortly before its own deadline has reached that.
constexpr absl::Duration kNearlyThere = absl::Milliseconds(5);

}  // namespace

TokenizerClient::TokenizerClient(std::shared_ptr<grpc::Channel> channel,
                                 absl::Duration hang_timeout, absl::Duration connect_time)
    : shared_(new Shared{.channel = channel,
                         .stub = v1::TokenizerService::NewStub(channel),
                         .connect_time = connect_time,
                         .mutex = {},
                         .times = StepTimes(hang_timeout)}) {}

// One call, made until it is answered.
template <class Request, class Response>
struct TokenizerClient::Attempts : std::enable_shared_from_this<Attempts<Request, Response>> {
  using Method = void (v1::TokenizerService::Stub::async::*)(grpc::ClientContext*, const Request*,
                                                             Response*,
                                                             std::function<void(grpc::Status)>);

  Attempts(std::shared_ptr<Shared> owner, Method which, Request asked, SteadyTime until,
           Callback<Response> then)
      : shared(std::move(owner)),
        method(which),
        request(std::move(asked)),
        deadline(until),
        callback(std::move(then)),
        connect_by(SteadyTime::Now() + shared->connect_time),
        size(1 + static_cast<int>(request.ByteSizeLong() >> 10)) {}

  void Try() {
    ++num_attempts;
    absl::Duration bound;
    {
      absl::MutexLock lock(&shared->mutex);
      bound = shared->times.Bound(size);
    }
    auto next = std::make_shared<grpc::ClientContext>();
    next->set_wait_for_ready(true);
    SetDeadline(*next, std::min(deadline, SteadyTime::Now() + bound));
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
    const SteadyTime now = SteadyTime::Now();
    const bool hangs =
        status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED && now + kNearlyThere < deadline;
    const bool is_lost = hangs || status.error_code() == grpc::StatusCode::UNAVAILABLE;
    if (is_lost && now < connect_by && !IsConnected()) return Try();
    {
      absl::MutexLock lock(&shared->mutex);
      if (status.ok()) shared->times.Completed(size, SteadyTime::Now() - begun);
      if (hangs) shared->times.GaveUp();
    }
    if (hangs && num_attempts < kMostAttempts) return Try();
    if (hangs) return callback(absl::UnavailableError("the tokenizer hangs"));
    if (!status.ok()) return callback(FromGrpc(status));
    callback(std::move(response));
  }

  bool IsConnected() const {
    return shared->channel->GetState(/*try_to_connect=*/false) == GRPC_CHANNEL_READY;
  }

  const std::shared_ptr<Shared> shared;
  const Method method;
  const Request request;
  const SteadyTime deadline;
  const Callback<Response> callback;
  const SteadyTime connect_by;
  const int size;
  absl::Mutex mutex;
  std::shared_ptr<grpc::ClientContext> context ABSL_GUARDED_BY(mutex);  // of the last attempt
  bool cancelled ABSL_GUARDED_BY(mutex) = false;
  Response response;
  SteadyTime begun;
  int num_attempts = 0;
};

template <class Request, class Response, class Method>
void TokenizerClient::Call(Method method, Request request, SteadyTime deadline,
                           Callback<Response> callback, Cancellation* cancellation) {
  const auto attempts = std::make_shared<Attempts<Request, Response>>(
      shared_, method, std::move(request), deadline, std::move(callback));
  // Does not keep the call: its memory goes with its answer.
  if (cancellation != nullptr) {
    cancellation->OnCancel([weak = std::weak_ptr<Attempts<Request, Response>>(attempts)] {
      if (const auto call = weak.lock()) call->Cancel();
    });
  }
  attempts->Try();
}

// The async interface overloads each method; these name the one that takes a callback.
template <class Request, class Response>
using CallbackMethod = void (v1::TokenizerService::Stub::async::*)(
    grpc::ClientContext*, const Request*, Response*, std::function<void(grpc::Status)>);

void TokenizerClient::Tokenize(v1::TokenizeRequest request, SteadyTime deadline,
                               Callback<v1::TokenizeResponse> callback,
                               Cancellation* cancellation) {
  CallbackMethod<v1::TokenizeRequest, v1::TokenizeResponse> method =
      &v1::TokenizerService::Stub::async::Tokenize;
  Call(method, std::move(request), deadline, std::move(callback), cancellation);
}

void TokenizerClient::Detokenize(v1::DetokenizeRequest request, SteadyTime deadline,
                                 Callback<v1::DetokenizeResponse> callback,
                                 Cancellation* cancellation) {
  CallbackMethod<v1::DetokenizeRequest, v1::DetokenizeResponse> method =
      &v1::TokenizerService::Stub::async::Detokenize;
  Call(method, std::move(request), deadline, std::move(callback), cancellation);
}

void TokenizerClient::ApplyChatTemplate(v1::ApplyChatTemplateRequest request, SteadyTime deadline,
                                        Callback<v1::ApplyChatTemplateResponse> callback,
                                        Cancellation* cancellation) {
  CallbackMethod<v1::ApplyChatTemplateRequest, v1::ApplyChatTemplateResponse> method =
      &v1::TokenizerService::Stub::async::ApplyChatTemplate;
  Call(method, std::move(request), deadline, std::move(callback), cancellation);
}

void TokenizerClient::GetVocabulary(v1::GetVocabularyRequest request, SteadyTime deadline,
                                    Callback<v1::GetVocabularyResponse> callback) {
  CallbackMethod<v1::GetVocabularyRequest, v1::GetVocabularyResponse> method =
      &v1::TokenizerService::Stub::async::GetVocabulary;
  Call(method, std::move(request), deadline, std::move(callback));
}

}  // namespace sluice
