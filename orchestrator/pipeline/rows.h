// Request to the sampler for one row of a step, and its result. Plain values, free of protos.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "kernels/sampling_options/sampling_options.h"
#include "orchestrator/scheduler/sequence.h"

namespace sluice {

// Asks for the log-probability of a known token.
struct ScoreTarget {
  TokenId token = 0;
};

// Asks for a text's embedding, which the row is part of.
struct PoolTarget {
  bool is_last = false;  // of the text's rows: its result has the embedding
};

// What the text of a sequence keeps, as the sampler is told. Serialized messages of sampler.proto,
// which have been checked.
struct ConstraintSpec {
  std::string constraint;                         // v1::Constraint
  std::shared_ptr<const std::string> vocabulary;  // v1::ConstraintVocabulary; of the model
  // Whom its masks are made for, and how much of the time is that tenant's.
  std::string tenant;
  double tenant_weight = 1;
};

struct RowRequest {
  SequenceId sequence = 0;
  int32_t sequence_index = 0;  // which of its request's sequences
  int32_t position = 0;        // of the token to choose or score
  // What is pointed at is borrowed until the step has been sent, and so are the spans below.
  std::variant<const SamplingOptions*, ScoreTarget, PoolTarget> task;
  int32_t num_logprobs = 0;
  bool processed_logprobs = false;  // of the distribution that is drawn from, not of the model
  // Of the sequence, for options that look at more than the row.
  absl::Span<const TokenId> tokens;            // those before `position`, at least in its first row
  int32_t num_prompt_tokens = 0;               // of them
  absl::Span<const TokenId> stop_tokens;       // what min_tokens holds back
  const ConstraintSpec* constraint = nullptr;  // null: none
  // The token before `position` is a draft; not set: one that the sequence has.
  std::optional<TokenId> draft;
  int32_t max_forced = 0;  // tokens that the constraint forces behind the chosen one to tell of
  // The last of `tokens`, where it was not the sampler that chose it.
  std::optional<TokenId> previous;
  // The alternatives are those with the largest perturbed log-probability (sampler.proto).
  bool perturbed = false;
};

struct RankedToken {
  TokenId token = 0;
  float logprob = 0;
  double perturbed = 0;  // where that was asked for
};

// What every step looks at comes first, in as few cache lines as it takes.
struct RowResult {
  TokenId token = 0;
  float logprob = 0;
  // It has no token yet: what the sampler needs for it is not ready.
  bool deferred = false;
  std::vector<RankedToken> top;  // falling, by what was asked for
  std::vector<TokenId> forced;   // tokens that must follow
  std::vector<TokenId> likely;   // tokens that usually write the text that must follow
  // Why this row has no token (its logits were not finite, or all tokens are forbidden), else
  // empty.
  std::string error;
  absl::StatusCode error_code = absl::StatusCode::kInternal;
  std::vector<float> embedding;  // of the last row of a pooled text
  absl::Duration work;  // of the processor, that masks of its sequence took since its row before
};

}  // namespace sluice
