// A fleet of replicas under a load, in virtual time. Each replica is the engine that serves, with
// its scheduler, KV cache, tenants and recovery; simulated are time and what computes
// (simulated_replica.h). The same load and options give the same figures on every machine.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "orchestrator/capacity/fleet_figures.h"
#include "orchestrator/capacity/service_levels.h"
#include "orchestrator/capacity/step_costs.h"
#include "orchestrator/capacity/trace.h"
#include "orchestrator/scheduler/scheduler_options.h"

namespace sluice {

// How requests are sent to replicas.
enum class FleetRouting {
  kTurns,   // in turns
  kPrefix,  // to the longest known prefix, weighed with load, as the gateway does (services/routing)
};

// A replica is lost with all its processes, its orchestrator and its KV cache.
struct FleetLoss {
  int replica = 0;
  double seconds = 0;  // since the load begins
};

struct FleetOptions {
  int num_replicas = 1;
  StepCosts costs;          // of each
  int32_t block_size = 16;  // positions
  int32_t num_blocks = 1;   // of each replica
  // max_inflight_steps, steps_ahead, drafts and tenants are set by the engine.
  SchedulerOptions scheduler;
  ServiceLevels levels;
  FleetRouting routing = FleetRouting::kTurns;
  // Requests of a lost replica go on at another, with the tokens that they have; where there is none,
  // they wait for one.
  std::vector<FleetLoss> losses;
  double start_seconds = 60;  // from a loss until the replica serves again
  // Used where replicas have nothing to do with each other: in turns and without losses. No figure
  // depends on it.
  int num_threads = 1;
};

// REQUIRES: the options are valid, and the trace has a request.
FleetFigures SimulateFleet(const Trace& trace, const FleetOptions& options);

// The smallest number from 1 to `most` for which `keeps` is true, where it is true for all above it
// too; nothing where it is false for `most`. Asks about few.
std::optional<int> FewestThatKeep(int most, const std::function<bool(int)>& keeps);

}  // namespace sluice
