// Keeps what several sequences bring until all are finished, and passes the best of them on: best_of.
// Touched by the engine's thread alone, as every sink is.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "orchestrator/engine/request.h"

namespace sluice {

class BestOfSink final : public RequestSink {
 public:
  // Of `num_sequences` drawn, `num_returned` with the largest mean log-probability of a token go to
  // `next`, best first, ties in the order in which they were drawn.
  BestOfSink(int32_t num_sequences, int32_t num_returned, std::shared_ptr<RequestSink> next);

  void OnChunk(ChunkEvent chunk) override;
  void OnFinished(RequestEnd end) override;
  void OnFailed(absl::Status status) override { next_->OnFailed(std::move(status)); }

 private:
  struct Kept {
    std::vector<ChunkEvent> chunks;
    double sum_logprob = 0;
    int32_t num_tokens = 0;

    double mean() const { return num_tokens > 0 ? sum_logprob / num_tokens : 0; }
  };

  const int32_t num_returned_;
  const std::shared_ptr<RequestSink> next_;
  std::vector<Kept> kept_;
};

}  // namespace sluice
