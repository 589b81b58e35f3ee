// Gumbel noise on log-probabilities: the tokens that a draw without replacement would give, all from
// one row. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "services/sampler/sampler.h"

namespace sluice {

// The place that the random numbers belong to, as of UniformFor.
struct NoisePlace {
  uint64_t seed = 0;
  int32_t sequence_index = 0;
  int32_t position = 0;
};

// A standard Gumbel variate, one for each token: -log(E), E being exponential and drawn by inversion
// from the uniform number of the token (philox.h), which is at least 2^-54 here.
double GumbelFor(const NoisePlace& place, int32_t token);

struct PerturbedToken {
  TokenLogprob token;
  double perturbed = 0;  // its log-probability plus its variate
};

// The `count` tokens whose perturbed log-probability is largest, falling, ties by lower id: a draw of
// so many tokens without replacement (Gumbel top-k; Vieira 2014, Kool et al. 2019). All where they are
// fewer.
std::vector<PerturbedToken> MostPerturbed(absl::Span<const TokenLogprob> tokens,
                                          const NoisePlace& place, int count);

}  // namespace sluice
