// What a simulated fleet has done with a load. Plain values; times are in seconds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "orchestrator/capacity/histogram.h"

namespace sluice {

// A part of the time, for charts.
struct FleetWindow {
  int64_t arrivals = 0;
  int64_t waiting = 0;       // sequences at its end, over all replicas
  int64_t running = 0;       // the same
  double used_blocks = 0;    // part of all blocks, at its end
  LogHistogram first_token;  // of requests that arrived in it
};

struct FleetFigures {
  int64_t num_requests = 0;
  int64_t num_finished = 0;
  int64_t num_refused = 0;  // because queues were full
  int64_t num_failed = 0;   // because they can't be served, such as too long ones
  std::string failure;      // why, of the first of those
  int64_t num_kept = 0;     // finished within the service levels

  // Of finished requests.
  int64_t prompt_tokens = 0;
  int64_t cached_prompt_tokens = 0;  // found in the prefix cache
  int64_t generated_tokens = 0;
  LogHistogram first_token, between_tokens, request;  // as ServiceLevels; between: every token's
  LogHistogram queue;                                 // from arrival to its first step

  int64_t num_preemptions = 0;
  int64_t num_losses = 0;  // of replicas
  int64_t num_moved = 0;   // times that a request went on at another replica
  int64_t num_steps = 0;
  int64_t num_segments = 0;    // of all steps
  double seconds = 0;          // from the first arrival to the last end
  double arrival_seconds = 0;  // from the first arrival to the last
  std::vector<double> busy;    // by replica: part of `seconds` in which its first stage computed
  double mean_used_blocks = 0, most_used_blocks = 0;  // part of all blocks

  double window_seconds = 0;
  std::vector<FleetWindow> windows;

  // Adds what further replicas did with their part of the same load: all but the parts of the whole,
  // `busy`, `mean_used_blocks` and `most_used_blocks`. REQUIRES: windows are as long.
  void Add(const FleetFigures& other);

  double kept_share() const;
  // Requests that kept the levels, a second.
  double goodput() const;
  double mean_busy() const;
  double cache_hit_share() const;  // of prompt_tokens
  double mean_step_sequences() const;
};

}  // namespace sluice
