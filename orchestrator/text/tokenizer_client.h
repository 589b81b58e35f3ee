// The orchestrator's unary calls to the tokenizer, as callbacks. Thread-safe. A call waits for a
// tokenizer that is starting or restarting, but not for one that hangs: it is made again, a few
// times, where it takes several times as long as calls of its size have taken. Callbacks come from
// gRPC's threads, each exactly once.
#pragma once

#include <grpcpp/channel.h>

#include <functional>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "orchestrator/text/cancellation.h"
#include "services/common/steady_time.h"
#include "services/common/step_times.h"
#include "sluice/v1/tokenizer.grpc.pb.h"

namespace sluice {

class TokenizerClient {
 public:
  template <class Response>
  using Callback = std::function<void(absl::StatusOr<Response>)>;

  // No call hangs in less than `hang_timeout`. One for which there is no connection waits for that up
  // to `connect_time`, and is no hang meanwhile.
  explicit TokenizerClient(std::shared_ptr<grpc::Channel> channel,
                           absl::Duration hang_timeout = absl::Seconds(2),
                           absl::Duration connect_time = absl::ZeroDuration());

  // Statuses as in tokenizer.proto; DEADLINE_EXCEEDED where `deadline` passes, UNAVAILABLE where the
  // tokenizer hangs or can't be reached, CANCELLED once `cancellation` (may be null) is.
  void Tokenize(v1::TokenizeRequest request, SteadyTime deadline,
                Callback<v1::TokenizeResponse> callback, Cancellation* cancellation = nullptr);
  void Detokenize(v1::DetokenizeRequest request, SteadyTime deadline,
                  Callback<v1::DetokenizeResponse> callback, Cancellation* cancellation = nullptr);
  void ApplyChatTemplate(v1::ApplyChatTemplateRequest request, SteadyTime deadline,
                         Callback<v1::ApplyChatTemplateResponse> callback,
                         Cancellation* cancellation = nullptr);
  void GetVocabulary(v1::GetVocabularyRequest request, SteadyTime deadline,
                     Callback<v1::GetVocabularyResponse> callback);

 private:
  // What calls under way hold on to, so that they may outlive the client.
  struct Shared {
    std::shared_ptr<grpc::Channel> channel;
    std::unique_ptr<v1::TokenizerService::Stub> stub;
    absl::Duration connect_time;
    absl::Mutex mutex;
    StepTimes times ABSL_GUARDED_BY(mutex);  // by the request's KiB
  };
  template <class Request, class Response>
  struct Attempts;

  template <class Request, class Response, class Method>
  void Call(Method method, Request request, SteadyTime deadline, Callback<Response> callback,
            Cancellation* cancellation = nullptr);

  const std::shared_ptr<Shared> shared_;
};

}  // namespace sluice
