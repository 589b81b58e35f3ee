// What is asked of the sampler for a row of a step, and what it answers. Plain values, free of
// protos.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "orchestrator/scheduler/sequence.h"

namespace sluice {

// How to choose a token; ranges as in sampler.proto.
struct SamplingParameters {
  float temperature = 1;
  int32_t top_k = 0;
  float top_p = 1;
  uint64_t seed = 0;
};

// Asks for the log-probability of a known token.
struct ScoreTarget {
  TokenId token = 0;
};

struct RowRequest {
  SequenceId sequence = 0;
  int32_t sequence_index = 0;  // which of its request's sequences
  int32_t position = 0;        // of the token to choose or score
  std::variant<SamplingParameters, ScoreTarget> task;
  int32_t num_logprobs = 0;
};

struct RankedToken {
  TokenId token = 0;
  float logprob = 0;
};

struct RowResult {
  TokenId token = 0;
  float logprob = 0;
  std::vector<RankedToken> top;  // falling
  // Why this row has no token (its logits were not finite), else empty.
  std::string error;
};

}  // namespace sluice
