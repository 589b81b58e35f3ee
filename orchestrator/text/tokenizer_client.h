// The orchestrator's unary calls to the tokenizer, as callbacks. Thread-safe. Every call has a
// deadline and waits within it for a tokenizer that is starting or restarting; callbacks come from
// gRPC's threads, each exactly once.
#pragma once

#include <grpcpp/channel.h>

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "orchestrator/text/cancellation.h"
#include "sluice/v1/tokenizer.grpc.pb.h"

namespace sluice {

class TokenizerClient {
 public:
  template <class Response>
  using Callback = std::function<void(absl::StatusOr<Response>)>;

  explicit TokenizerClient(std::shared_ptr<grpc::Channel> channel);

  // Statuses as in tokenizer.proto; UNAVAILABLE or DEADLINE_EXCEEDED where the tokenizer can't be
  // reached until `deadline`, CANCELLED once `cancellation` (may be null) is.
  void Tokenize(v1::TokenizeRequest request, absl::Time deadline,
                Callback<v1::TokenizeResponse> callback, Cancellation* cancellation = nullptr);
  void Detokenize(v1::DetokenizeRequest request, absl::Time deadline,
                  Callback<v1::DetokenizeResponse> callback);
  void ApplyChatTemplate(v1::ApplyChatTemplateRequest request, absl::Time deadline,
                         Callback<v1::ApplyChatTemplateResponse> callback,
                         Cancellation* cancellation = nullptr);
  void GetVocabulary(v1::GetVocabularyRequest request, absl::Time deadline,
                     Callback<v1::GetVocabularyResponse> callback);

 private:
  template <class Request, class Response, class Method>
  void Call(Method method, Request request, absl::Time deadline, Callback<Response> callback,
            Cancellation* cancellation = nullptr);

  const std::unique_ptr<v1::TokenizerService::Stub> stub_;
};

}  // namespace sluice
