#include "orchestrator/api/score_call.h"

#include <cmath>
#include <utility>
#include <vector>

#include "orchestrator/api/messages.h"
#include "orchestrator/api/request_check.h"
#include "services/common/raw_message.h"
#include "services/common/status.h"

namespace sluice {

class ScoreCall::Sink final : public RequestSink, public std::enable_shared_from_this<Sink> {
 public:
  Sink(Engine& engine, const ModelDescription& model, std::string tenant, int32_t top,
       int32_t priority, absl::Time deadline)
      : engine_(engine),
        model_(model),
        tenant_(std::move(tenant)),
        top_(top),
        priority_(priority),
        deadline_(deadline) {}

  // The call gets its answer through these; until Detach().
  void Attach(grpc::ServerUnaryReactor* call, grpc::ByteBuffer* response) {
    absl::MutexLock lock(&mutex_);
    call_ = call;
    response_ = response;
  }

  void Finish(const absl::Status& status) {
    absl::MutexLock lock(&mutex_);
    FinishLocked(status);
  }

  // The client has gone.
  void Cancel() {
    {
      absl::MutexLock lock(&mutex_);
      if (submitted_.has_value()) engine_.Cancel(*submitted_);
      FinishLocked(absl::CancelledError("the caller left"));
    }
    caller_->Cancel();
  }

  const std::shared_ptr<Cancellation>& caller() const { return caller_; }

  void Submit(absl::StatusOr<ResolvedPrompt> prompt) {
    if (!prompt.ok()) return Finish(prompt.status());
    const absl::Status fits = CheckScoreLength(std::ssize(prompt->tokens), model_);
    if (!fits.ok()) return Finish(fits);
    tokens_ = prompt->tokens;
    if (tokens_.size() == 1) return Complete();  // nothing comes before its only token
    EngineRequest request;
    request.name = "score";
    request.prompt = std::move(prompt->tokens);
    request.score = true;
    request.wants_text = false;
    request.num_logprobs = top_;
    request.priority = priority_;
    request.tenant = tenant_;
    request.arrived = arrived_;
    if (deadline_ != absl::InfiniteFuture()) request.deadline = SteadyTime::FromWall(deadline_);
    absl::MutexLock lock(&mutex_);
    if (call_ != nullptr) submitted_ = engine_.Submit(std::move(request), shared_from_this());
  }

  void OnChunk(ChunkEvent chunk) override {
    for (TokenEvent& token : chunk.tokens) scores_.push_back(std::move(token));
  }
  void OnFinished(RequestEnd) override { Complete(); }
  void OnFailed(absl::Status status) override { Finish(status); }

 private:
  void FinishLocked(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (call_ != nullptr) std::exchange(call_, nullptr)->Finish(ToGrpc(status));
  }

  void Complete() {
    absl::MutexLock lock(&mutex_);
    if (call_ == nullptr) return;
    v1::ScoreResponse response;
    response.mutable_token_ids()->Add(tokens_.begin(), tokens_.end());
    double sum = 0;
    for (const TokenEvent& score : scores_) {
      *response.add_logprobs() = ToProto(score);
      sum += score.logprob;
    }
    const double mean = scores_.empty() ? 0 : -sum / static_cast<double>(scores_.size());
    response.set_mean_nll(mean);
    response.set_perplexity(std::exp(mean));
    *response_ = SerializeMessage(response);
    FinishLocked(absl::OkStatus());
  }

  Engine& engine_;
  const ModelDescription& model_;
  const std::string tenant_;
  const int32_t top_;
  const int32_t priority_;
  const absl::Time deadline_;
  const std::shared_ptr<Cancellation> caller_ = std::make_shared<Cancellation>();
  const SteadyTime arrived_ = SteadyTime::Now();
  std::vector<int32_t> tokens_;     // set before the engine hears of the request
  std::vector<TokenEvent> scores_;  // touched by the engine's thread alone

  absl::Mutex mutex_;
  grpc::ServerUnaryReactor* call_ ABSL_GUARDED_BY(mutex_) = nullptr;  // until it is answered
  grpc::ByteBuffer* response_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::optional<RequestId> submitted_ ABSL_GUARDED_BY(mutex_);
};

ScoreCall::ScoreCall(const Context& context, const absl::StatusOr<v1::ScoreRequest>& request,
                     grpc::ByteBuffer& response, absl::Time deadline)
    : sink_(std::make_shared<Sink>(context.engine, context.model, context.tenant,
                                   request.ok() ? request->top() : 0,
                                   request.ok() ? request->priority() : 0, deadline)) {
  sink_->Attach(this, &response);
  absl::Status status = request.ok() ? CheckScore(*request) : request.status();
  if (status.ok()) status = context.tenants.CheckPriority(context.tenant, request->priority());
  if (!status.ok()) {
    sink_->Finish(status);
    return;
  }
  context.prompts.Resolve(
      *request, deadline, sink_->caller(),
      [sink = sink_](absl::StatusOr<ResolvedPrompt> prompt) { sink->Submit(std::move(prompt)); });
}

void ScoreCall::OnCancel() { sink_->Cancel(); }

void ScoreCall::OnDone() { delete this; }

}  // namespace sluice
