#include "orchestrator/api/best_of_sink.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace sluice {

BestOfSink::BestOfSink(int32_t num_sequences, int32_t num_returned,
                       std::shared_ptr<RequestSink> next)
    : num_returned_(num_returned), next_(std::move(next)), kept_(num_sequences) {}

void BestOfSink::OnChunk(ChunkEvent chunk) {
  if (!chunk.prompt_tokens.empty()) {  // come before all others, and are nobody's alone
    ChunkEvent prompt;
    prompt.prompt_tokens = std::exchange(chunk.prompt_tokens, {});
    next_->OnChunk(std::move(prompt));
  }
  Kept& kept = kept_[chunk.sequence_index];
  for (const TokenEvent& token : chunk.tokens) kept.sum_logprob += token.logprob;
  kept.num_tokens += static_cast<int32_t>(chunk.tokens.size());
  if (!chunk.tokens.empty() || !chunk.text.empty()) kept.chunks.push_back(std::move(chunk));
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
      end.num_discarded_tokens += kept.num_tokens;
      continue;
    }
    for (ChunkEvent& chunk : kept.chunks) {
      chunk.sequence_index = place;
      next_->OnChunk(std::move(chunk));
    }
    ends.push_back(std::move(end.sequences[order[place]]));
  }
  end.sequences = std::move(ends);
  next_->OnFinished(std::move(end));
}

}  // namespace sluice
