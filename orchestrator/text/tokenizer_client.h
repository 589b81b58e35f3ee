// The orchestrator's unary calls to the tokenizer, as callbacks. Thread-safe. A call waits for a
// tokenizer that is starting or restarting, but not for one that hangs: it is made again, a few
// times, where it takes several times as long as calls of its size have taken and the tokenizer
// answers nothing else either. Callbacks come from gRPC's threads, each exactly once.
#pragma once

#include <grpcpp/channel.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "orchestrator/text/request_context.h"
#include "services/watch/step_times.h"
#include "sluice/v1/tokenizer.grpc.pb.h"

namespace sluice {

class TokenizerClient {
 public:
  template <class Response>
  using Callback = std::function<void(absl::StatusOr<Response>)>;

  struct Options {
    // No call hangs in less.
    absl::Duration hang_timeout = absl::Seconds(2);
    // A call for which there is no connection waits for that so long, and is no hang meanwhile.
    absl::Duration connect_time = absl::ZeroDuration();
    // Of the tokenizer that has to answer (services/messages/expected_tokenizer.h); empty: any.
    std::string digest = "";
    // Whether the tokenizer answers other calls: then one that takes long waits for its tenant's
    // others, and is not given up. Empty: unknown.
    std::function<bool()> answers;
    // Bytes of the texts under way, in all. A tenant may have as much as is free beside it.
    size_t max_bytes = size_t{128} << 20;
  };

  explicit TokenizerClient(std::shared_ptr<grpc::Channel> channel)
      : TokenizerClient(std::move(channel), Options()) {}
  TokenizerClient(std::shared_ptr<grpc::Channel> channel, Options options);

  // Statuses as in tokenizer.proto; DEADLINE_EXCEEDED where the request's deadline passes,
  // UNAVAILABLE where the tokenizer hangs, can't be reached or is that of another model, CANCELLED
  // once the caller has left, RESOURCE_EXHAUSTED where too many bytes of its tenant are under way or
  // the request has taken all the work that it may.
  void Tokenize(v1::TokenizeRequest request, const RequestContext& context,
                Callback<v1::TokenizeResponse> callback);
  void Detokenize(v1::DetokenizeRequest request, const RequestContext& context,
                  Callback<v1::DetokenizeResponse> callback);
  void ApplyChatTemplate(v1::ApplyChatTemplateRequest request, const RequestContext& context,
                         Callback<v1::ApplyChatTemplateResponse> callback);
  void GetVocabulary(v1::GetVocabularyRequest request, const RequestContext& context,
                     Callback<v1::GetVocabularyResponse> callback);

 private:
  // What calls under way hold on to, so that they may outlive the client.
  struct Shared {
    std::shared_ptr<grpc::Channel> channel;
    std::unique_ptr<v1::TokenizerService::Stub> stub;
    const Options options;
    absl::Mutex mutex;
    StepTimes times ABSL_GUARDED_BY(mutex);       // by the request's KiB
    size_t num_bytes ABSL_GUARDED_BY(mutex) = 0;  // under way; of each tenant that has any
    absl::flat_hash_map<std::string, size_t> num_bytes_of ABSL_GUARDED_BY(mutex);

    // OK and the bytes are the tenant's until Release().
    absl::Status Reserve(const std::string& tenant, size_t bytes);
    void Release(const std::string& tenant, size_t bytes);
  };
  template <class Request, class Response>
  struct Attempts;

  template <class Request, class Response, class Method>
  void Call(Method method, Request request, const RequestContext& context,
            Callback<Response> callback);

  const std::shared_ptr<Shared> shared_;
};

}  // namespace sluice
