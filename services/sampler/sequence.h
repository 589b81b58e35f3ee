// The sampler's state of a sequence: the effect of its options and tokens on the next token.
// Everything here is a function of what plans contained. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "kernels/sampling.h"
#include "kernels/sampling_options/sampling_options.h"
#include "services/sampler/constraints/constrained_text.h"
#include "services/sampler/repetition.h"
#include "services/sampler/sequence_past.h"

namespace sluice {

class SamplerSequence {
 public:
  // `stop_tokens` end the sequence, and are held back until it has min_tokens. The first
  // `num_prompt` tokens of its past are the prompt; `text` is what the others must keep, if
  // anything.
  // REQUIRES: options pass CheckSamplingOptions; stop tokens are in the vocabulary.
  SamplerSequence(SamplingOptions options, std::vector<int32_t> stop_tokens, int32_t num_prompt,
                  int64_t vocabulary_size, std::optional<ConstrainedText> text = std::nullopt);

  const SamplingOptions& options() const { return options_; }
  const SequencePast& past() const { return past_; }

  void Append(int32_t token);
  // Takes back the tokens from position `size` on. REQUIRES: 0 <= size <= past().size().
  void Truncate(int32_t size);

  // The options' own mask of tokens that may come, as SampleRow::allowed; empty: all may.
  absl::Span<const uint32_t> allowed() const { return allowed_; }

  // The constraint of what comes after the prompt; null: there is none.
  ConstrainedText* text() { return text_.has_value() ? &*text_ : nullptr; }
  // Has the text's masks made for the tokens after past() and after each of `drafts`.
  // REQUIRES: text() is not null.
  void AskForMasks(std::vector<int32_t> drafts, int32_t max_following);

  // The position of the last row that chose no token, because it was deferred or failed, until one
  // at that position or before it is asked for again. Rows behind it have nothing to go on from.
  std::optional<int32_t> without_token() const { return without_token_; }
  void set_without_token(std::optional<int32_t> position) { without_token_ = position; }
  // What to change of the logits of the token after past(); by ascending id.
  std::vector<LogitEdit> Edits();

 private:
  // Constant after construction.
  SamplingOptions options_;
  std::vector<int32_t> stop_tokens_;
  std::vector<uint32_t> allowed_;

  SequencePast past_;
  std::optional<NgramEnds> ngram_ends_;        // where no_repeat_ngram_size is set
  std::optional<RepeatedRuns> repeated_runs_;  // where DRY is on
  std::optional<ConstrainedText> text_;
  std::optional<int32_t> without_token_;
};

}  // namespace sluice
