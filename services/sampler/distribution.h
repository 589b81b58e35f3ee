// What a sampled token is drawn from: logits to the probabilities of the tokens that the filters
// keep. Double arithmetic on one row alone, so a row's result never depends on its neighbours.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace sluice {

// How to choose a token. Neutral values switch a stage off.
struct SamplingOptions {
  // 0 chooses the largest logit (ties: the lowest id). Otherwise logits are divided by it.
  float temperature = 1;  // >= 0, finite
  // Keeps the k largest and ties with the k-th; 0 keeps all.
  int top_k = 0;  // >= 0
  // Keeps the most probable tokens while the mass before one is below it, ties by lower id.
  float top_p = 1;  // in (0, 1]
  uint64_t seed = 0;
};

// INVALID_ARGUMENT naming the field, its value and what is accepted.
absl::Status CheckSamplingOptions(const SamplingOptions& options);

struct TokenProbability {
  int32_t id = 0;
  double probability = 0;
};

// The tokens that are left, by ascending id, with probabilities that add up to 1. In this order:
// temperature, top-k, top-p, softmax; top-p sees the renormalised probabilities that top-k left. Of
// a token whose probability is too small for a double, 0 is left. `kept` is overwritten; passing
// the same vector again saves its allocation.
// REQUIRES: options pass CheckSamplingOptions; logits [V] are finite, V >= 1.
void FilteredDistribution(absl::Span<const float> logits, const SamplingOptions& options,
                          std::vector<TokenProbability>& kept);

// Inverts the cumulative distribution, summed by ascending id: the first token whose cumulative
// probability is above `uniform` times the total.
// REQUIRES: uniform in [0, 1), some probability is above 0.
int32_t DrawToken(absl::Span<const TokenProbability> distribution, double uniform);

}  // namespace sluice
