// Measures what steps cost, for `sluice simulate`: loads of known steps are put on a pipeline that
// does nothing else, and the times that a client sees are solved for what a step takes.
//
//   first token of a lone prompt of P tokens     request + step(P) + row + pairs
//   time between tokens of C streams             step(C) + C rows + what they read
//   the same of streams with long prompts        gives the cost of reading cached positions
//   a prompt of two whole steps                  gives the cost of attention pairs
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "clients/cli/client.h"
#include "clients/cli/load_generator.h"
#include "orchestrator/capacity/step_costs.h"

namespace sluice {

struct FitOptions {
  int rounds = 5;  // >= 1; medians are taken
  uint64_t seed = 0;
  int vocabulary_size = 0;
  // Of the pipeline.
  int32_t max_positions = 0;
  int32_t max_step_tokens = 512;
  int32_t max_streams = 64;
  int32_t kv_positions = 0;  // that the KV cache holds
  int num_stages = 1;
};

// What clients saw, in seconds: medians.
struct FitMeasurements {
  struct Prefill {
    int32_t tokens = 0;
    double seconds = 0;  // to the first token
  };
  struct Decode {
    int32_t streams = 0;
    double context = 0;  // positions that each reads, in the mean
    double seconds = 0;  // between tokens
  };
  std::vector<Prefill> prefills;    // by tokens; the first has one
  std::vector<Prefill> long_ones;   // prompts of two whole steps; may be empty
  std::vector<Decode> decodes;      // by streams, with short prompts; the first has one
  std::vector<Decode> long_decode;  // one, with long prompts; or none
};

// The costs that explain the measurements. Pure.
StepCosts SolveCosts(const FitMeasurements& measured, const FitOptions& options);

// Requests of all rounds.
int NumRequests(const FitOptions& options);

// Measures and solves. `progress` counts over all. Errors of the calls; CANCELLED after an interrupt.
absl::StatusOr<StepCosts> FitStepCosts(Client& client, const FitOptions& options,
                                       const LoadProgress& progress);

// The table in `path` with `costs` in place of those of the same arrangement; without the others
// where model or machine are not the same, or where there is no such file yet. Errors of reading and
// writing, and of a file that is no cost table.
absl::Status UpdateCostFile(const std::string& path, const std::string& model,
                            const std::string& machine, const StepCosts& costs);

}  // namespace sluice
