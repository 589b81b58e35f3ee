#include "orchestrator/api/best_of_sink.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"

namespace sluice {

BestOfSink::BestOfSink(int32_t num_sequences, int32_t num_returned,
                       std::vector<std::vector<TokenId>> resumed, std::shared_ptr<RequestSink> next)
    : num_returned_(num_returned),
      resumed_(std::move(resumed)),
      has_resumed_(std::any_of(resumed_.begin(), resumed_.end(),
                               [](const auto& tokens) { return !tokens.empty(); })),
      next_(std::move(next)),
      kept_(num_sequences) {}

void BestOfSink::OnChunk(ChunkEvent chunk) {
  if (!chunk.prompt_tokens.empty()) {  // come before all others, and are nobody's alone
    ChunkEvent prompt;
    prompt.prompt_tokens = std::exchange(chunk.prompt_tokens, {});
    if (!has_resumed_) next_->OnChunk(std::move(prompt));
  }
  Kept& kept = kept_[chunk.sequence_index];
  for (TokenEvent& token : chunk.tokens) {
    kept.sum_logprob += token.logprob;
    kept.chunk.tokens.push_back(std::move(token));
  }
  kept.chunk.text += chunk.text;
}

absl::StatusOr<bool> BestOfSink::IsResumed(size_t place, const Kept& kept) const {
  if (place >= resumed_.size() || resumed_[place].empty()) return false;
  const bool same = std::equal(resumed_[place].begin(), resumed_[place].end(),
                               kept.chunk.tokens.begin(), kept.chunk.tokens.end(),
                               [](TokenId a, const TokenEvent& b) { return a == b.token; });
  if (same) return true;
  return absl::InvalidArgumentError(
      absl::StrCat("resume[", place, "].token_ids are not those of the sequence that best_of ",
                   "returns there; accepted: all of them, or none"));
}

void BestOfSink::OnFinished(RequestEnd end) {
  std::vector<int32_t> order(kept_.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [this](int32_t a, int32_t b) { return kept_[a].mean() > kept_[b].mean(); });
  std::vector<SequenceEnd> ends;
  for (int32_t place = 0; place < std::ssize(order); ++place) {
    Kept& kept = kept_[order[place]];
    if (place >= num_returned_) {
      end.num_discarded_tokens += kept.num_tokens();
      continue;
    }
    const absl::StatusOr<bool> resumed = IsResumed(place, kept);
    if (!resumed.ok()) return next_->OnFailed(resumed.status());
    kept.chunk.sequence_index = place;
    if (!*resumed && (kept.num_tokens() > 0 || !kept.chunk.text.empty())) {
      next_->OnChunk(std::move(kept.chunk));
    }
    ends.push_back(std::move(end.sequences[order[place]]));
  }
  end.sequences = std::move(ends);
  next_->OnFinished(std::move(end));
}

}  // namespace sluice
