#include "orchestrator/api/score_batch.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "orchestrator/api/messages.h"
#include "orchestrator/api/request_check.h"

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

ScoreBatch::ScoreBatch(const TextCallContext& context, Options options, int32_t top,
                       std::vector<v1::ScoreInput> inputs, Callback callback)
    : TextBatch(context, std::move(options), inputs.size()),
      top_(top),
      inputs_(std::move(inputs)),
      callback_(std::move(callback)),
      texts_(inputs_.size()) {}

void ScoreBatch::Resolve(size_t index) {
  prompts().Resolve(inputs_[index], OfCaller(), Resolved(index));
}

absl::Status ScoreBatch::CheckFits(const std::vector<int32_t>& tokens) const {
  // Behind a source the text alone counts, which OnTokens knows.
  if (model().source.has_value()) return absl::OkStatus();
  return CheckScoreLength(std::ssize(tokens), model());
}

void ScoreBatch::OnTokens(size_t index, ResolvedPrompt prompt) {
  const auto text_begin = prompt.tokens.begin() + FilledSource(prompt.source_positions);
  const absl::Status fits = CheckScoreLength(prompt.tokens.end() - text_begin, model());
  if (!fits.ok()) return End(fits);
  {
    absl::MutexLock lock(&mutex_);
    texts_[index].source.assign(prompt.tokens.begin(), text_begin);
    texts_[index].tokens.assign(text_begin, prompt.tokens.end());
    texts_[index].source_positions = prompt.source_positions;
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
    const bool has_sources = model().source.has_value();  // which are rarely the same
    for (size_t i = 0; i < texts_.size() && !has_sources; ++i) texts_[i].prefix = prefixes[i];
  }
  if (inputs_.size() > 1 && num_tokens > kMostTokens) {
    return End(absl::InvalidArgumentError(absl::StrCat(
        "inputs have ", num_tokens, " tokens together; accepted: up to ", kMostTokens)));
  }
  Continue();
}

void ScoreBatch::Continue() {
  {
    absl::MutexLock lock(&mutex_);
    if (is_over()) return;
    SubmitReady();
    if (!std::all_of(texts_.begin(), texts_.end(), [](const Text& text) { return text.done; })) {
      return;
    }
  }
  End(absl::OkStatus());
}

void ScoreBatch::SubmitReady() {
  for (bool changed = true; std::exchange(changed, false);) {
    for (size_t i = 0; i < texts_.size(); ++i) {
      const int32_t with = texts_[i].prefix.with;
      if (texts_[i].begun || (with >= 0 && !texts_[with].done)) continue;
      SubmitText(i);
      changed = changed || texts_[i].done;
    }
  }
}

void ScoreBatch::SubmitText(size_t index) {
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
  EngineRequest request = NewRequest(index);
  request.prompt = text.source;
  request.prompt.insert(request.prompt.end(), text.tokens.begin(), text.tokens.end());
  request.source_positions = text.source_positions;
  request.score = true;
  request.num_positions_scored_by_sibling = static_cast<int32_t>(text.scores.size());
  request.num_logprobs = top_;
  Submit(index, std::move(request));
}

void ScoreBatch::OnChunk(size_t index, ChunkEvent chunk) {
  std::move(chunk.tokens.begin(), chunk.tokens.end(), std::back_inserter(texts_[index].scores));
}

void ScoreBatch::OnDone(size_t index) {
  {
    absl::MutexLock lock(&mutex_);
    texts_[index].done = true;
  }
  Continue();
}

void ScoreBatch::Report(const absl::Status& status) {
  if (!status.ok()) return callback_(status);
  std::vector<v1::ScoredText> result;
  {
    absl::MutexLock lock(&mutex_);
    for (const Text& text : texts_) result.push_back(Scored(text.tokens, text.scores));
  }
  callback_(std::move(result));
}

}  // namespace sluice
