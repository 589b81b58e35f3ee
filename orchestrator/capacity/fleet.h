// A fleet of replicas under a load, in virtual time. Each replica is the engine that serves, with
// its scheduler, KV cache, tenants and recovery; simulated are time and what computes
// (simulated_replica.h). The same load and options give the same figures on every machine.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "orchestrator/capacity/fleet_figures.h"
#include "orchestrator/capacity/service_levels.h"
#include "orchestrator/capacity/step_costs.h"
#include "orchestrator/capacity/trace.h"
#include "orchestrator/scheduler/scheduler_options.h"

namespace sluice {

struct FleetOptions {
  int num_replicas = 1;
  StepCosts costs;          // of each
  int32_t block_size = 16;  // positions
  int32_t num_blocks = 1;   // of each replica
  // max_inflight_steps, steps_ahead, drafts and tenants are set by the engine.
  SchedulerOptions scheduler;
  ServiceLevels levels;
};

// Requests go to the replicas in turns, as the gateway sends them. REQUIRES: the options are valid,
// and the trace has a request.
FleetFigures SimulateFleet(const Trace& trace, const FleetOptions& options);

// The smallest number from 1 to `most` for which `keeps` is true, where it is true for all above it
// too; nothing where it is false for `most`. Asks about few.
std::optional<int> FewestThatKeep(int most, const std::function<bool(int)>& keeps);

}  // namespace sluice
