// Keeps what several sequences bring until all are finished, and passes the best of them on, each as one
// chunk: best_of. A call that is resumed draws them all again, which comes to the same, and leaves out
// what its client has.
//
// Touched by the engine's thread alone, as every sink is.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "orchestrator/engine/request.h"

namespace sluice {

class BestOfSink final : public RequestSink {
 public:
  // Of `num_sequences` drawn, `num_returned` with the largest mean log-probability of a token go to
  // `next`, best first, ties in the order in which they were drawn. `resumed` has what the client has
  // of those that are returned: all tokens of one, or none. Fails with INVALID_ARGUMENT where others
  // were drawn.
  BestOfSink(int32_t num_sequences, int32_t num_returned, std::vector<std::vector<TokenId>> resumed,
             std::shared_ptr<RequestSink> next);

  void OnChunk(ChunkEvent chunk) override;
  void OnFinished(RequestEnd end) override;
  void OnFailed(absl::Status status) override { next_->OnFailed(std::move(status)); }

 private:
  struct Kept {
    ChunkEvent chunk;  // all that came
    double sum_logprob = 0;

    int32_t num_tokens() const { return static_cast<int32_t>(chunk.tokens.size()); }
    double mean() const { return num_tokens() > 0 ? sum_logprob / num_tokens() : 0; }
  };

  // Whether the client has the sequence in this place; INVALID_ARGUMENT where it has another.
  absl::StatusOr<bool> IsResumed(size_t place, const Kept& kept) const;

  const int32_t num_returned_;
  const std::vector<std::vector<TokenId>> resumed_;  // by place, as far as it goes
  const bool has_resumed_;                           // so that the prompt came, too
  const std::shared_ptr<RequestSink> next_;
  std::vector<Kept> kept_;
};

}  // namespace sluice
