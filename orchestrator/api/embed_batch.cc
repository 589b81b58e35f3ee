#include "orchestrator/api/embed_batch.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"

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

EmbedBatch::EmbedBatch(const TextCallContext& context, Options options, What what,
                       std::vector<Text> texts, Callback callback)
    : TextBatch(context, std::move(options), texts.size()),
      what_(what),
      texts_(std::move(texts)),
      callback_(std::move(callback)),
      results_(texts_.size()) {}

void EmbedBatch::Continue() {
  size_t index = 0;
  {
    absl::MutexLock lock(&mutex_);
    if (is_over() || resolving_ || next_ == texts_.size() || num_under_way_ >= kMostUnderWay) {
      return;
    }
    resolving_ = true;
    ++num_under_way_;
    index = next_++;
  }
  prompts().Resolve(texts_[index].input, texts_[index].prompt, what_.truncate_tokens, OfCaller(),
                    Resolved(index));
}

absl::Status EmbedBatch::CheckFits(const std::vector<int32_t>& tokens) const {
  const int32_t most =
      what_.yes_or_no.has_value() ? model().max_positions - 1 : model().max_text_tokens;
  if (std::ssize(tokens) <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the text has ", tokens.size(),
                                                 " tokens, more than this model embeds; accepted: "
                                                 "up to ",
                                                 most, ", or truncate_tokens"));
}

void EmbedBatch::OnTokens(size_t index, ResolvedPrompt prompt) {
  bool too_many = false;
  {
    absl::MutexLock lock(&mutex_);
    resolving_ = false;
    num_tokens_ += std::ssize(prompt.tokens);
    too_many = num_tokens_ > kMostTextTokens;
  }
  if (too_many) {
    return End(absl::InvalidArgumentError(
        absl::StrCat(options().list, " have more than ", kMostTextTokens, " tokens together")));
  }
  EngineRequest request = NewRequest(index);
  Ask(request);
  if (model().num_token_types > 1) request.second_type_from = prompt.second_begin;
  {
    absl::MutexLock lock(&mutex_);
    if (is_over()) return;
    results_[index].num_tokens = static_cast<int32_t>(prompt.tokens.size());
    request.prompt = std::move(prompt.tokens);
    Submit(index, std::move(request));
  }
  Continue();
}

void EmbedBatch::Ask(EngineRequest& request) const {
  if (!what_.yes_or_no.has_value()) {
    request.pooled = RowsOf(*model().embedder);
    request.in_one_piece = model().embeds_in_one_piece;
    request.use_prefix_cache = !model().embeds_in_one_piece;
    return;
  }
  request.sampling.temperature = 1;
  request.sampling.allowed_token_ids = {what_.yes_or_no->yes, what_.yes_or_no->no};
  request.processed_logprobs = true;
  request.num_logprobs = 2;
  request.max_new_tokens = 1;
}

void EmbedBatch::OnChunk(size_t index, ChunkEvent chunk) {
  std::vector<float>& numbers = results_[index].numbers;
  if (!what_.yes_or_no.has_value()) {
    numbers = std::move(chunk.embedding);
  } else if (!chunk.tokens.empty()) {
    numbers = {ProbabilityOf(what_.yes_or_no->yes, chunk.tokens.front())};
  }
}

void EmbedBatch::OnDone(size_t /*index*/) {
  bool all = false;
  {
    absl::MutexLock lock(&mutex_);
    --num_under_way_;
    all = next_ == texts_.size() && num_under_way_ == 0;
  }
  if (all) return End(absl::OkStatus());
  Continue();
}

void EmbedBatch::Report(const absl::Status& status) {
  if (!status.ok()) return callback_(status);
  std::vector<Result> results;
  {
    absl::MutexLock lock(&mutex_);
    results.swap(results_);
  }
  callback_(std::move(results));
}

}  // namespace sluice
