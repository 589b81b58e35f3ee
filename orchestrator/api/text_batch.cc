#include "orchestrator/api/text_batch.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "services/common/status.h"
#include "services/telemetry/tracer.h"

namespace sluice {

class TextBatch::TextSink final : public RequestSink {
 public:
  TextSink(std::shared_ptr<TextBatch> batch, size_t index)
      : batch_(std::move(batch)), index_(index) {}

  void OnChunk(ChunkEvent chunk) override {
    absl::MutexLock lock(&batch_->mutex_);
    batch_->OnChunk(index_, std::move(chunk));
  }
  void OnFinished(RequestEnd) override {
    {
      absl::MutexLock lock(&batch_->mutex_);
      if (batch_->over_) return;
      batch_->submitted_[index_].reset();
    }
    batch_->OnDone(index_);
  }
  void OnFailed(absl::Status status) override { batch_->End(status); }

 private:
  const std::shared_ptr<TextBatch> batch_;
  const size_t index_;
};

TextBatch::TextBatch(const TextCallContext& context, Options options, size_t num_texts)
    : model_(context.model),
      prompts_(context.prompts),
      engine_(context.engine),
      tenant_(context.tenant),
      owner_(context.tenants.OwnerFor(tenant_)),
      cache_domain_(context.tenants.CacheDomain(tenant_, "")),
      trace_(context.trace),
      options_(std::move(options)),
      num_texts_(num_texts),
      submitted_(num_texts) {}

void TextBatch::Cancel() {
  {
    absl::MutexLock lock(&mutex_);
    over_ = true;
    for (const std::optional<RequestId>& id : submitted_) {
      if (id.has_value()) engine_.Cancel(*id);
    }
  }
  caller_->Cancel();
}

RequestContext TextBatch::OfCaller() const {
  return {.deadline = options_.deadline,
          .work = {.owner = owner_, .meter = meter_},
          .cancellation = caller_};
}

PromptResolver::Callback TextBatch::Resolved(size_t index) {
  return [self = shared_from_this(), index](absl::StatusOr<ResolvedPrompt> prompt) {
    absl::Status status = prompt.status();
    if (status.ok()) status = self->CheckFits(prompt->tokens);
    if (status.ok()) return self->OnTokens(index, *std::move(prompt));
    if (self->num_texts_ == 1) return self->End(status);
    self->End(Annotate(status, absl::StrCat(self->options_.list, "[", index, "]")));
  };
}

EngineRequest TextBatch::NewRequest(size_t index) const {
  EngineRequest request;
  request.name = options_.name;
  request.wants_text = false;
  request.priority = options_.priority;
  request.tenant = tenant_;
  if (index == 0) request.work = meter_->total();
  request.cache_salt = cache_domain_;
  request.adapter = options_.adapter;
  request.trace_id = trace_.trace_id;
  if (trace_.span != nullptr) {
    request.span = std::make_shared<Span>(ChildOf(*trace_.span, "text", {}, {}));
  }
  request.arrived = arrived_;
  if (options_.deadline != SteadyTime::InfiniteFuture()) request.deadline = options_.deadline;
  return request;
}

void TextBatch::Submit(size_t index, EngineRequest request) {
  submitted_[index] =
      engine_.Submit(std::move(request), std::make_shared<TextSink>(shared_from_this(), index));
}

void TextBatch::End(const absl::Status& status) {
  {
    absl::MutexLock lock(&mutex_);
    if (std::exchange(over_, true)) return;
  }
  if (!status.ok()) Cancel();  // the others'
  Report(status);
}

}  // namespace sluice
