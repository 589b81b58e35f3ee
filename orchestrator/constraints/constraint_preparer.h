// Has the sampler compile a request's constraint before a step needs it, so that errors reach the
// client and no step waits for a compiler. Fetches the bytes of tokens from the tokenizer, once.
// Thread-safe; nothing blocks.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "orchestrator/pipeline/rows.h"
#include "orchestrator/text/request_context.h"
#include "orchestrator/text/tokenizer_client.h"
#include "services/common/steady_time.h"
#include "sluice/v1/sampler.grpc.pb.h"

namespace sluice {

class ConstraintPreparer : public std::enable_shared_from_this<ConstraintPreparer> {
 public:
  using Callback = std::function<void(absl::StatusOr<std::shared_ptr<const ConstraintSpec>>)>;

  struct Model {
    int32_t vocabulary_size = 0;
    std::vector<int32_t> end_token_ids;
  };

  // Borrows the tokenizer, until Stop().
  static std::shared_ptr<ConstraintPreparer> Make(Model model, TokenizerClient* tokenizer,
                                                  std::shared_ptr<grpc::Channel> sampler);

  // Calls back with what the sampler is to be told, or why it can't keep it: a status of
  // constraint.proto, or UNAVAILABLE, DEADLINE_EXCEEDED where sampler or tokenizer can't be reached
  // by the request's deadline; CANCELLED where its caller leaves before. From a thread of gRPC's,
  // or at once.
  void Prepare(const v1::Constraint& constraint, const RequestContext& context, Callback callback);

  // Cancels what is under way. Whoever waits is told.
  void Stop();

 private:
  // As ConstraintSpec::vocabulary.
  using Vocabulary = absl::StatusOr<std::shared_ptr<const std::string>>;
  using VocabularyCallback = std::function<void(const Vocabulary&)>;
  struct Call;

  ConstraintPreparer(Model model, TokenizerClient* tokenizer,
                     std::shared_ptr<grpc::Channel> sampler);

  void GetVocabulary(SteadyTime deadline, VocabularyCallback callback);
  void FetchPage(int32_t first_token_id, SteadyTime deadline);
  void OnPage(const absl::StatusOr<v1::GetVocabularyResponse>& page, SteadyTime deadline);
  void AddPage(const v1::GetVocabularyResponse& page) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PublishVocabulary(const Vocabulary& vocabulary);

  void AskSampler(const std::shared_ptr<Call>& call);
  // Its caller has left.
  void Leave(Call& call);
  void OnAnswer(const std::shared_ptr<Call>& call, const absl::Status& status);

  const Model model_;
  TokenizerClient* const tokenizer_;
  const std::unique_ptr<v1::ConstraintService::Stub> sampler_;

  absl::Mutex mutex_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  absl::flat_hash_set<grpc::ClientContext*> asking_ ABSL_GUARDED_BY(mutex_);
  // Null until all pages have come.
  std::shared_ptr<const std::string> vocabulary_ ABSL_GUARDED_BY(mutex_);
  v1::ConstraintVocabulary pages_ ABSL_GUARDED_BY(mutex_);
  std::vector<VocabularyCallback> waiting_ ABSL_GUARDED_BY(mutex_);  // for the pages
};

}  // namespace sluice
