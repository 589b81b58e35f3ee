// Prefill and decode measured apart: each phase is a load in which the other does not go on.
//
//   prefill:P   one prompt of P tokens, from sending it to its first token
//   decode:C    C streams, in the time in which all of them write
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "clients/cli/client.h"
#include "clients/cli/load_generator.h"

namespace sluice {

struct Phase {
  enum class Kind { kPrefill, kDecode };
  Kind kind = Kind::kPrefill;
  int count = 0;  // tokens of the prompt, or streams; >= 1
};

// "prefill:512,decode:16". INVALID_ARGUMENT naming the part that is none.
absl::StatusOr<std::vector<Phase>> ParsePhases(const std::string& text);

struct PhasesOptions {
  std::vector<Phase> phases;
  int rounds = 0;      // >= 1
  int max_tokens = 0;  // that a stream of a decode phase writes, >= 2
  int vocabulary_size = 0;
  uint64_t seed = 0;
  v1::SamplingOptions sampling;  // greedy where it has no temperature
  bool drafts = false;           // the server drafts as it likes; false: nothing is drafted
  // Each decode phase is measured once more with drafts: what its streams wrote the first time, of
  // which this share is right.
  std::optional<double> draft_replay;
  int draft_tokens = 4;               // the longest draft of it
  std::vector<std::string> adapters;  // which requests take in turns; empty: they have none
  // Each decode phase is measured once more with texts that keep this.
  std::optional<v1::Constraint> constraint;
};

// Tokens per second, round by round.
struct PhaseFigures {
  Phase phase;
  std::vector<double> tokens_per_second;
  // Of a decode phase, where drafts are replayed: tokens per second then, tokens drafted and right.
  std::vector<double> replayed_per_second;
  int64_t num_drafted = 0;
  int64_t num_accepted = 0;
  // Of a decode phase, where there is a constraint: tokens per second under it.
  std::vector<double> constrained_per_second;
};

// The load that a phase is. Every round draws prompts of its own, so that none was seen before.
LoadOptions LoadOf(const Phase& phase, const PhasesOptions& options, int round);

// The same load with what `recorded` wrote as drafts. Which tokens are right is a function of seed,
// request and place alone.
LoadOptions ReplayOf(const LoadTrace& recorded, const PhasesOptions& options);

// The same load under the constraint. REQUIRES: there is one.
LoadOptions ConstrainedOf(LoadOptions load, const PhasesOptions& options);

// Tokens per second of the phase in its load. FAILED_PRECONDITION where the streams of a decode
// phase were not all at work at some time: they write too few tokens.
absl::StatusOr<double> RateOf(const Phase& phase, const LoadTrace& trace);

// Requests of all rounds.
int NumRequests(const PhasesOptions& options);

// Runs all phases, round by round, after a round that is not counted. `progress` counts over all.
// After an interrupt: what was measured by then, where that is something of every phase.
absl::StatusOr<std::vector<PhaseFigures>> RunPhases(Client& client, const PhasesOptions& options,
                                                    const LoadProgress& progress);

}  // namespace sluice
