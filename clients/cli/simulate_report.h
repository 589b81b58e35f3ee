// What `sluice simulate` prints of a simulated fleet. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "orchestrator/capacity/fleet.h"
#include "orchestrator/capacity/step_costs.h"
#include "orchestrator/capacity/trace.h"

namespace sluice {

// What a search has tried.
struct TriedFleet {
  int num_replicas = 0;
  int tp = 1;
  int pp = 1;
  int max_step_tokens = 0;
  double kept_share = 0;  // of requests
  double first_token_p95 = 0;
  double mean_busy = 0;

  int num_shards() const { return num_replicas * tp * pp; }
};

// What a search varies.
enum class SearchFor {
  kReplicas,       // the fewest
  kArrangement,    // tp and pp of the cost table, and replicas: the fewest shards in all
  kMaxStepTokens,  // the most requests within the levels, then the earliest first tokens
};

// "replicas", "arrangement", "max_step_tokens".
std::string NameOf(SearchFor search);
// What `search` varies of it, in a few characters: "3", "3 x tp 2 pp 1", "512".
std::string SettingOf(const TriedFleet& tried, SearchFor search);

struct SimulationReport {
  std::string load;     // what was served, in words
  std::string model;    // what was measured; may be empty
  std::string machine;  // where its steps were measured; may be empty
  FleetOptions options;
  FleetFigures figures;
  SearchFor search = SearchFor::kReplicas;
  // Of a search: what was tried, in order, and which share of requests has to keep the service
  // levels. Empty: no search.
  std::vector<TriedFleet> tried;
  double wanted_share = 0;
  bool found = true;        // false: not even the most that were tried keep them
  int64_t num_skipped = 0;  // requests of the trace that are left out
};

// In lines of at most 80 characters.
std::string SimulationText(const SimulationReport& report);
// One JSON object; times in seconds.
std::string SimulationJson(const SimulationReport& report);

// "850 us", "12.3 ms", "1.25 s", "2m 5s".
std::string TimeText(double seconds);

}  // namespace sluice
