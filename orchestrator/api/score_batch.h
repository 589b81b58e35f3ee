// The texts of one Score call: has the engine score them. A text that begins as an earlier one does
// waits for that one, and then computes only what it adds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "orchestrator/api/shared_prefixes.h"
#include "orchestrator/api/text_batch.h"
#include "sluice/v1/generation.pb.h"

namespace sluice {

class ScoreBatch final : public TextBatch {
 public:
  // One for each text, in order, or why there are none. Called once, unless it is cancelled.
  using Callback = std::function<void(absl::StatusOr<std::vector<v1::ScoredText>>)>;

  // `top`: as ScoreRequest has it.
  ScoreBatch(const TextCallContext& context, Options options, int32_t top,
             std::vector<v1::ScoreInput> inputs, Callback callback);

  void Start() override { Resolve(0); }

 private:
  struct Text {
    std::vector<int32_t> tokens;
    std::vector<TokenEvent> scores;  // of tokens from the second one on
    SharedPrefix prefix;
    std::vector<int32_t> source;  // of encoder-decoders: what goes before `tokens`, filled up
    int32_t source_positions = 0;
    bool begun = false;
    bool done = false;
  };

  void Resolve(size_t index);
  absl::Status CheckFits(const std::vector<int32_t>& tokens) const override;
  void OnTokens(size_t index, ResolvedPrompt prompt) override;
  void OnChunk(size_t index, ChunkEvent chunk) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnDone(size_t index) override;
  void Report(const absl::Status& status) override;
  // Has the engine score what waits for nothing; ends when all is scored.
  void Continue();
  void SubmitReady() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SubmitText(size_t index) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const int32_t top_;
  const std::vector<v1::ScoreInput> inputs_;
  const Callback callback_;
  std::vector<Text> texts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sluice
