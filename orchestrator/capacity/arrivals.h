// Loads by a law, in place of a trace: Poisson arrivals and others. The same options give the same
// load on every machine.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "orchestrator/capacity/trace.h"

namespace sluice {

// The times between arrivals: independent, with a mean of 1 / rate.
struct ArrivalLaw {
  double rate = 1;  // requests a second, > 0
  // Of the times between arrivals, deviation over mean: 0 evenly spaced, 1 exponential (Poisson),
  // above 1 in bursts (gamma-distributed). >= 0.
  double variation = 1;
};

// "poisson:RATE", "steady:RATE" or "bursty:RATE:VARIATION". INVALID_ARGUMENT with what is accepted.
absl::StatusOr<ArrivalLaw> ParseArrivalLaw(const std::string& text);

// A number of tokens, uniform in [least, most].
struct TokenRange {
  int32_t least = 1;
  int32_t most = 1;
};

// "N" or "LEAST-MOST", 1 to kMostTracedTokens. INVALID_ARGUMENT with what is accepted.
absl::StatusOr<TokenRange> ParseTokenRange(const std::string& text);

struct SyntheticLoad {
  ArrivalLaw arrivals;
  int64_t num_requests = 1000;
  TokenRange prompt_tokens{128, 128};
  TokenRange new_tokens{64, 64};
  // The first so many tokens of a prompt are one of `num_prefixes` texts; 0: nothing is shared.
  int32_t prefix_tokens = 0;
  int32_t num_prefixes = 1;  // >= 1
  uint64_t seed = 0;
};

Trace MakeTrace(const SyntheticLoad& load);

// The arrivals of MakeTrace alone: seconds, rising, the first at 0.
std::vector<double> MakeArrivals(const ArrivalLaw& law, int64_t count, uint64_t seed);

}  // namespace sluice
