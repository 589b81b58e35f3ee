#include "orchestrator/api/embed_batch.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/common/status.h"
#include "services/telemetry/tracer.h"

namespace sluice {
namespace {

// Texts of one call that are queued or computed at a time: enough to fill steps, and few enough that
// one call does not fill the queue.
constexpr size_t kMostUnderWay = 256;

// Of all texts of a call.
constexpr int64_t kMostTextTokens = int64_t{1} << 20;

PooledRows RowsOf(const EmbedderSpec& embedder) {
  if (embedder.needs_all_rows()) return PooledRows::kAll;
  return embedder.poolings[0] == Pooling::kCls ? PooledRows::kFirst : PooledRows::kLast;
}

// Of the two tokens that could be drawn, those that were not are impossible.
float ProbabilityOf(int32_t token, const TokenEvent& drawn) {
  for (const RankedToken& ranked : drawn.top) {
    if (ranked.token == token) return std::exp(ranked.logprob);
  }
  return 0;
}

}  // namespace

class EmbedBatch::TextSink final : public RequestSink {
 public:
  TextSink(std::shared_ptr<EmbedBatch> batch, size_t index)
      : batch_(std::move(batch)), index_(index) {}

  void OnChunk(ChunkEvent chunk) override { batch_->OnChunk(index_, std::move(chunk)); }
  void OnFinished(RequestEnd) override { batch_->OnDone(index_); }
  void OnFailed(absl::Status status) override { batch_->End(std::move(status)); }

 private:
  const std::shared_ptr<EmbedBatch> batch_;
  const size_t index_;
};

EmbedBatch::EmbedBatch(Context context, Options options, std::vector<Text> texts, Callback callback)
    : context_(std::move(context)),
      options_(std::move(options)),
      texts_(std::move(texts)),
      progress_(texts_.size()),
      callback_(std::move(callback)) {}

void EmbedBatch::Cancel() {
  {
    absl::MutexLock lock(&mutex_);
    callback_ = nullptr;
    for (const Progress& text : progress_) {
      if (text.submitted.has_value() && !text.done) context_.engine.Cancel(*text.submitted);
    }
  }
  caller_->Cancel();
}

void EmbedBatch::Continue() {
  size_t index = 0;
  {
    absl::MutexLock lock(&mutex_);
    if (callback_ == nullptr || resolving_ || next_ == texts_.size() ||
        num_under_way_ >= kMostUnderWay) {
      return;
    }
    resolving_ = true;
    ++num_under_way_;
    index = next_++;
  }
  context_.prompts.Resolve(
      texts_[index].input, texts_[index].prompt, options_.truncate_tokens,
      {.deadline = options_.deadline,
       .work = {.owner = context_.owner, .meter = meter_},
       .cancellation = caller_},
      [self = shared_from_this(), index](absl::StatusOr<ResolvedPrompt> prompt) {
        self->OnResolved(index, std::move(prompt));
      });
}

absl::Status EmbedBatch::CheckFits(const std::vector<int32_t>& tokens) const {
  const int32_t most = options_.yes_or_no.has_value() ? context_.model.max_positions - 1
                                                      : context_.model.max_text_tokens;
  if (std::ssize(tokens) <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the text has ", tokens.size(),
                                                 " tokens, more than this model embeds; accepted: "
                                                 "up to ",
                                                 most, ", or truncate_tokens"));
}

void EmbedBatch::OnResolved(size_t index, absl::StatusOr<ResolvedPrompt> prompt) {
  absl::Status status = prompt.status();
  if (status.ok()) status = CheckFits(prompt->tokens);
  if (!status.ok()) {
    if (texts_.size() > 1) {
      status = Annotate(status, absl::StrCat(options_.list, "[", index, "]"));
    }
    return End(std::move(status));
  }
  bool too_many = false;
  {
    absl::MutexLock lock(&mutex_);
    resolving_ = false;
    num_tokens_ += std::ssize(prompt->tokens);
    too_many = num_tokens_ > kMostTextTokens;
  }
  if (too_many) {
    return End(absl::InvalidArgumentError(
        absl::StrCat(options_.list, " have more than ", kMostTextTokens, " tokens together")));
  }
  Submit(index, *std::move(prompt));
  Continue();
}

void EmbedBatch::Ask(EngineRequest& request) const {
  const ModelDescription& model = context_.model;
  if (!options_.yes_or_no.has_value()) {
    request.pooled = RowsOf(*model.embedder);
    request.in_one_piece = model.embeds_in_one_piece;
    request.use_prefix_cache = !model.embeds_in_one_piece;
    return;
  }
  request.sampling.temperature = 1;
  request.sampling.allowed_token_ids = {options_.yes_or_no->yes, options_.yes_or_no->no};
  request.processed_logprobs = true;
  request.num_logprobs = 2;
  request.max_new_tokens = 1;
}

void EmbedBatch::Submit(size_t index, ResolvedPrompt prompt) {
  EngineRequest request;
  request.name = options_.request_id.empty() ? "embed" : options_.request_id;
  Ask(request);
  if (context_.model.num_token_types > 1) request.second_type_from = prompt.second_begin;
  request.wants_text = false;
  request.priority = options_.priority;
  request.tenant = context_.tenant;
  if (index == 0) request.work = meter_->total();
  request.cache_salt = context_.cache_domain;
  request.trace_id = context_.trace.trace_id;
  if (context_.trace.span != nullptr) {
    request.span = std::make_shared<Span>(ChildOf(*context_.trace.span, "text", {}, {}));
  }
  request.arrived = arrived_;
  if (options_.deadline != SteadyTime::InfiniteFuture()) request.deadline = options_.deadline;
  absl::MutexLock lock(&mutex_);
  if (callback_ == nullptr) return;
  Progress& text = progress_[index];
  text.result.num_tokens = static_cast<int32_t>(prompt.tokens.size());
  request.prompt = std::move(prompt.tokens);
  text.submitted = context_.engine.Submit(std::move(request),
                                          std::make_shared<TextSink>(shared_from_this(), index));
}

void EmbedBatch::OnChunk(size_t index, ChunkEvent chunk) {
  absl::MutexLock lock(&mutex_);
  std::vector<float>& numbers = progress_[index].result.numbers;
  if (!options_.yes_or_no.has_value()) {
    numbers = std::move(chunk.embedding);
  } else if (!chunk.tokens.empty()) {
    numbers = {ProbabilityOf(options_.yes_or_no->yes, chunk.tokens.front())};
  }
}

void EmbedBatch::OnDone(size_t index) {
  std::optional<std::vector<Result>> results;
  {
    absl::MutexLock lock(&mutex_);
    if (callback_ == nullptr) return;
    progress_[index].done = true;
    --num_under_way_;
    if (next_ == texts_.size() && num_under_way_ == 0) results = TakeResults();
  }
  if (results.has_value()) return End(*std::move(results));
  Continue();
}

std::vector<EmbedBatch::Result> EmbedBatch::TakeResults() {
  std::vector<Result> results;
  results.reserve(progress_.size());
  for (Progress& text : progress_) results.push_back(std::move(text.result));
  return results;
}

void EmbedBatch::End(absl::StatusOr<std::vector<Result>> result) {
  Callback callback;
  {
    absl::MutexLock lock(&mutex_);
    callback = std::exchange(callback_, nullptr);
  }
  if (callback == nullptr) return;
  if (!result.ok()) Cancel();  // the others'
  callback(std::move(result));
}

}  // namespace sluice
