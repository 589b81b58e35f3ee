#include "orchestrator/api/score_batch.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "orchestrator/api/messages.h"
#include "orchestrator/api/request_check.h"
#include "services/common/status.h"
#include "services/telemetry/tracer.h"

namespace sluice {
namespace {

// Of several texts together, so that an answer stays a message that can be sent.
constexpr int64_t kMostTokens = int64_t{1} << 18;

v1::ScoredText Scored(const std::vector<int32_t>& tokens, const std::vector<TokenEvent>& scores) {
  v1::ScoredText text;
  text.mutable_token_ids()->Add(tokens.begin(), tokens.end());
  double sum = 0;
  for (const TokenEvent& score : scores) {
    *text.add_logprobs() = ToProto(score);
    sum += score.logprob;
  }
  text.set_sum_logprob(sum);
  const double mean = scores.empty() ? 0 : -sum / static_cast<double>(scores.size());
  text.set_mean_nll(mean);
  text.set_perplexity(std::exp(mean));
  return text;
}

}  // namespace

class ScoreBatch::TextSink final : public RequestSink {
 public:
  TextSink(std::shared_ptr<ScoreBatch> batch, size_t index)
      : batch_(std::move(batch)), index_(index) {}

  void OnChunk(ChunkEvent chunk) override { batch_->OnScores(index_, std::move(chunk.tokens)); }
  void OnFinished(RequestEnd) override { batch_->OnDone(index_); }
  void OnFailed(absl::Status status) override { batch_->End(std::move(status)); }

 private:
  const std::shared_ptr<ScoreBatch> batch_;
  const size_t index_;
};

ScoreBatch::ScoreBatch(Context context, const Options& options, std::vector<v1::ScoreInput> inputs,
                       Callback callback)
    : context_(std::move(context)),
      options_(options),
      inputs_(std::move(inputs)),
      texts_(inputs_.size()),
      callback_(std::move(callback)) {}

void ScoreBatch::Cancel() {
  {
    absl::MutexLock lock(&mutex_);
    callback_ = nullptr;
    for (const Text& text : texts_) {
      if (text.submitted.has_value() && !text.done) context_.engine.Cancel(*text.submitted);
    }
  }
  caller_->Cancel();
}

void ScoreBatch::Resolve(size_t index) {
  context_.prompts.Resolve(
      inputs_[index],
      {.deadline = options_.deadline,
       .work = {.owner = context_.owner, .meter = meter_},
       .cancellation = caller_},
      [self = shared_from_this(), index](absl::StatusOr<ResolvedPrompt> prompt) {
        self->OnResolved(index, std::move(prompt));
      });
}

void ScoreBatch::OnResolved(size_t index, absl::StatusOr<ResolvedPrompt> prompt) {
  const auto annotate = [&](const absl::Status& status) {
    return inputs_.size() == 1 ? status : Annotate(status, absl::StrCat("inputs[", index, "]"));
  };
  if (!prompt.ok()) return End(annotate(prompt.status()));
  const absl::Status fits = CheckScoreLength(std::ssize(prompt->tokens), context_.model);
  if (!fits.ok()) return End(annotate(fits));
  {
    absl::MutexLock lock(&mutex_);
    texts_[index].tokens = std::move(prompt->tokens);
  }
  if (index + 1 < inputs_.size()) return Resolve(index + 1);
  int64_t num_tokens = 0;
  {
    absl::MutexLock lock(&mutex_);
    std::vector<std::vector<int32_t>> tokens;
    for (const Text& text : texts_) {
      tokens.push_back(text.tokens);
      num_tokens += std::ssize(text.tokens);
    }
    const std::vector<SharedPrefix> prefixes = FindSharedPrefixes(tokens);
    for (size_t i = 0; i < texts_.size(); ++i) texts_[i].prefix = prefixes[i];
  }
  if (inputs_.size() > 1 && num_tokens > kMostTokens) {
    return End(absl::InvalidArgumentError(absl::StrCat(
        "inputs have ", num_tokens, " tokens together; accepted: up to ", kMostTokens)));
  }
  OnDone(std::nullopt);
}

void ScoreBatch::SubmitReady() {
  for (bool changed = true; std::exchange(changed, false);) {
    for (size_t i = 0; i < texts_.size(); ++i) {
      const int32_t with = texts_[i].prefix.with;
      if (texts_[i].begun || (with >= 0 && !texts_[with].done)) continue;
      Submit(i);
      changed = changed || texts_[i].done;
    }
  }
}

void ScoreBatch::Submit(size_t index) {
  Text& text = texts_[index];
  text.begun = true;
  if (text.prefix.with >= 0) {
    const std::vector<TokenEvent>& known = texts_[text.prefix.with].scores;
    text.scores.assign(known.begin(), known.begin() + text.prefix.num_tokens - 1);
  }
  if (text.scores.size() + 1 == text.tokens.size()) {  // nothing is left to score
    text.done = true;
    return;
  }
  EngineRequest request;
  request.name = "score";
  request.prompt = text.tokens;
  request.score = true;
  request.num_positions_scored_by_sibling = static_cast<int32_t>(text.scores.size());
  request.wants_text = false;
  request.num_logprobs = options_.top;
  request.priority = options_.priority;
  request.tenant = context_.tenant;
  if (index == 0) request.work = meter_->total();
  request.cache_salt = context_.cache_domain;
  request.adapter = context_.adapter;
  request.trace_id = context_.trace.trace_id;
  if (context_.trace.span != nullptr) {
    request.span = std::make_shared<Span>(ChildOf(*context_.trace.span, "text", {}, {}));
  }
  request.arrived = arrived_;
  if (options_.deadline != SteadyTime::InfiniteFuture()) request.deadline = options_.deadline;
  text.submitted = context_.engine.Submit(std::move(request),
                                          std::make_shared<TextSink>(shared_from_this(), index));
}

void ScoreBatch::OnScores(size_t index, TokenEvents scores) {
  absl::MutexLock lock(&mutex_);
  std::move(scores.begin(), scores.end(), std::back_inserter(texts_[index].scores));
}

void ScoreBatch::OnDone(std::optional<size_t> index) {
  std::vector<v1::ScoredText> result;
  {
    absl::MutexLock lock(&mutex_);
    if (callback_ == nullptr) return;
    if (index.has_value()) texts_[*index].done = true;
    SubmitReady();
    const bool all =
        std::all_of(texts_.begin(), texts_.end(), [](const Text& text) { return text.done; });
    if (!all) return;
    result = Result();
  }
  End(std::move(result));
}

std::vector<v1::ScoredText> ScoreBatch::Result() const {
  std::vector<v1::ScoredText> result;
  for (const Text& text : texts_) result.push_back(Scored(text.tokens, text.scores));
  return result;
}

void ScoreBatch::End(absl::StatusOr<std::vector<v1::ScoredText>> result) {
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
