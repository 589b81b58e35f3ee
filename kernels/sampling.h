// What the operation Sample is asked and answers: a row of logits to the token chosen from it.
// Plain values.
//
// The row passes these stages, the last three as sampling_options.h defines them:
//   1. tokens outside `allowed` are forbidden: their logit is -infinity
//   2. edits: bias is added; where the token counts as repeated, a logit above 0 is divided by the
//      repetition penalty and any other multiplied with it (Keskar et al. 2019; the two cases are
//      Hugging Face's); penalty is subtracted. In double, rounded to float once at the end.
//   3. temperature
//   4. filters
//   5. the draw: the first token by ascending id whose cumulative probability is above
//      `token_uniform` times the total
//
// All arithmetic behind the edits is in double; sums run in an order fixed by V alone.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "kernels/sampling_options/sampling_options.h"

namespace sluice {

// What changes the logit of one token before it is chosen from.
struct LogitEdit {
  int32_t id = 0;
  float bias = 0;     // -infinity forbids the token
  float penalty = 0;  // finite
  bool repeated = false;
};

// Borrows all that it names.
struct SampleRow {
  // Pass CheckSamplingOptions. Temperature, filters and the repetition penalty count here; what
  // lists and counts of tokens do is in `allowed` and `edits`.
  const SamplingOptions* options = nullptr;
  // Bit id % 32 of word id / 32 says whether a token may be chosen; [ceil(V / 32)], empty: all may.
  absl::Span<const uint32_t> allowed;
  absl::Span<const LogitEdit> edits;  // each id at most once
  double token_uniform = 0;           // in [0, 1)
  double xtc_uniform = 0;             // in [0, 1); below xtc_probability: XTC removes top choices
  // How many of the most probable tokens of the distribution that is drawn from to return, falling,
  // ties by lower id: as many as that has, or all of them where they are fewer.
  int num_top = 0;
  // Whether to answer the model's own log-probability of the token, too.
  bool wants_logprob = false;
};

struct TokenProbability {
  int32_t id = 0;
  double probability = 0;
};

enum class SampleError : uint8_t {
  kNone,
  kNotFinite,    // a logit of the row is infinite or no number; `token.id` says which
  kNothingLeft,  // every token is forbidden
};

struct SampledRow {
  SampleError error = SampleError::kNone;
  TokenProbability token;  // with its probability in the distribution that it was drawn from
  std::vector<TokenProbability> top;
  // What Ops::LogSoftmax makes of the token's logit as it came, to the bit; where it was asked
  // for and a token was chosen.
  float logprob = 0;
};

}  // namespace sluice
