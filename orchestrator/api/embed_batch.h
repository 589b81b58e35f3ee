// Several texts, each of which the engine makes numbers of: what Embed and Rerank calls share. A
// limited number of texts is queued or computed at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "orchestrator/api/text_batch.h"
#include "sluice/v1/embed.pb.h"

namespace sluice {

class EmbedBatch final : public TextBatch {
 public:
  struct Text {
    v1::EmbedInput input;
    std::string prompt;  // goes before it
  };
  // Tokens of a generating model that answer a text. Its one number is the probability of `yes` where
  // the next token is one of the two.
  struct YesOrNo {
    int32_t yes = 0;
    int32_t no = 0;
  };
  struct What {
    int32_t truncate_tokens = 0;       // 0: longer texts are refused
    std::optional<YesOrNo> yes_or_no;  // none: embeddings, of a model that makes them
  };
  struct Result {
    std::vector<float> numbers;
    int32_t num_tokens = 0;
  };
  // One for each text, in order, or why there are none. Called once, unless it is cancelled.
  using Callback = std::function<void(absl::StatusOr<std::vector<Result>>)>;

  EmbedBatch(const TextCallContext& context, Options options, What what, std::vector<Text> texts,
             Callback callback);

  void Start() override { Continue(); }

 private:
  // Has the next text tokenized, unless enough are under way.
  void Continue();
  absl::Status CheckFits(const std::vector<int32_t>& tokens) const override;
  void OnTokens(size_t index, ResolvedPrompt prompt) override;
  void OnChunk(size_t index, ChunkEvent chunk) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnDone(size_t index) override;
  void Report(const absl::Status& status) override;
  // Fills in what a text is asked for.
  void Ask(EngineRequest& request) const;

  const What what_;
  const std::vector<Text> texts_;
  const Callback callback_;
  std::vector<Result> results_ ABSL_GUARDED_BY(mutex_);  // of each text
  size_t next_ ABSL_GUARDED_BY(mutex_) = 0;              // to be tokenized
  size_t num_under_way_ ABSL_GUARDED_BY(mutex_) = 0;
  bool resolving_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t num_tokens_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace sluice
