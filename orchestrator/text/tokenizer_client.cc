#include "orchestrator/text/tokenizer_client.h"

#include <grpcpp/client_context.h>

#include <utility>

#include "services/common/status.h"

namespace sluice {

TokenizerClient::TokenizerClient(std::shared_ptr<grpc::Channel> channel)
    : stub_(v1::TokenizerService::NewStub(std::move(channel))) {}

template <class Request, class Response, class Method>
void TokenizerClient::Call(Method method, Request request, absl::Time deadline,
                           Callback<Response> callback, Cancellation* cancellation) {
  struct State {
    grpc::ClientContext context;
    Request request;
    Response response;
  };
  auto state = std::make_shared<State>();
  state->request = std::move(request);
  state->context.set_wait_for_ready(true);
  state->context.set_deadline(absl::ToChronoTime(deadline));
  if (cancellation != nullptr) {
    if (cancellation->cancelled()) return callback(absl::CancelledError("the caller left"));
    // Does not keep the call: its memory goes with its answer.
    cancellation->OnCancel([weak = std::weak_ptr<State>(state)] {
      if (const auto call = weak.lock()) call->context.TryCancel();
    });
  }
  (stub_->async()->*method)(&state->context, &state->request, &state->response,
                            [state, callback = std::move(callback)](const grpc::Status& status) {
                              if (status.ok()) {
                                callback(std::move(state->response));
                              } else {
                                callback(FromGrpc(status));
                              }
                            });
}

// The async interface overloads each method; these name the one that takes a callback.
template <class Request, class Response>
using CallbackMethod = void (v1::TokenizerService::Stub::async::*)(
    grpc::ClientContext*, const Request*, Response*, std::function<void(grpc::Status)>);

void TokenizerClient::Tokenize(v1::TokenizeRequest request, absl::Time deadline,
                               Callback<v1::TokenizeResponse> callback,
                               Cancellation* cancellation) {
  CallbackMethod<v1::TokenizeRequest, v1::TokenizeResponse> method =
      &v1::TokenizerService::Stub::async::Tokenize;
  Call(method, std::move(request), deadline, std::move(callback), cancellation);
}

void TokenizerClient::Detokenize(v1::DetokenizeRequest request, absl::Time deadline,
                                 Callback<v1::DetokenizeResponse> callback) {
  CallbackMethod<v1::DetokenizeRequest, v1::DetokenizeResponse> method =
      &v1::TokenizerService::Stub::async::Detokenize;
  Call(method, std::move(request), deadline, std::move(callback));
}

void TokenizerClient::ApplyChatTemplate(v1::ApplyChatTemplateRequest request, absl::Time deadline,
                                        Callback<v1::ApplyChatTemplateResponse> callback,
                                        Cancellation* cancellation) {
  CallbackMethod<v1::ApplyChatTemplateRequest, v1::ApplyChatTemplateResponse> method =
      &v1::TokenizerService::Stub::async::ApplyChatTemplate;
  Call(method, std::move(request), deadline, std::move(callback), cancellation);
}

void TokenizerClient::GetVocabulary(v1::GetVocabularyRequest request, absl::Time deadline,
                                    Callback<v1::GetVocabularyResponse> callback) {
  CallbackMethod<v1::GetVocabularyRequest, v1::GetVocabularyResponse> method =
      &v1::TokenizerService::Stub::async::GetVocabulary;
  Call(method, std::move(request), deadline, std::move(callback));
}

}  // namespace sluice
