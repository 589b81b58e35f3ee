// Puts load on a pipeline and writes down when tokens came: in a closed loop, `concurrency` callers
// each of which sends its next request when the last one ended; or at times that are given.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "clients/cli/client.h"
#include "sluice/v1/generation.pb.h"
#include "sluice/v1/sampling.pb.h"

namespace sluice {

// All >= 1 but for the seed.
struct LoadOptions {
  int prompt_tokens = 0;
  int max_tokens = 0;
  int concurrency = 0;
  int requests = 0;
  int vocabulary_size = 0;
  // When each request is sent, in seconds, rising; a request that finds all callers busy counts from
  // then and not from when it is sent. Empty: a closed loop.
  std::vector<double> arrivals;
  uint64_t seed = 0;                  // of the prompts and of the sampling
  v1::SamplingOptions sampling;       // greedy where it has no temperature
  v1::DraftOptions drafts;            // of every request
  std::vector<std::string> adapters;  // which requests take in turns; empty: they have none
  // By request, what it expects to write; empty: none says so.
  std::vector<std::vector<int32_t>> expected;
  // What every text keeps; it is not let end before max_tokens, which it must allow.
  std::optional<v1::Constraint> constraint;
};

// Tokens that arrived together.
struct Arrival {
  double seconds = 0;  // since the load began
  int tokens = 0;
};

struct RequestTrace {
  double start = 0;  // seconds since the load began: when it was sent, or was to be
  double end = 0;
  std::vector<Arrival> arrivals;  // at least one, in order
  std::vector<int32_t> tokens;    // that arrived
  v1::Usage usage;
};

struct LoadTrace {
  LoadOptions options;
  double wall_seconds = 0;
  std::vector<RequestTrace> requests;  // those that ended, in order of their numbers
};

// Called after every request and every arrival, one call at a time.
using LoadProgress = std::function<void(int finished_requests, int64_t generated_tokens)>;

// The token ids of request number `index`: uniform in [0, V), a function of seed and index alone.
std::vector<int32_t> RandomPrompt(const LoadOptions& options, int index);

// Runs the load past the end of sequence, or under a constraint with the end held back, so that every
// request writes max_tokens tokens.
// The first failure keeps further requests from starting and is returned; but after an interrupt,
// what had ended by then.
absl::StatusOr<LoadTrace> RunLoad(Client& client, const LoadOptions& options,
                                  const LoadProgress& progress);

}  // namespace sluice
