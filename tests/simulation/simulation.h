// One run of the whole orchestrator against a world that misbehaves: the real engine, scheduler,
// key-value bookkeeping, replica and text streams, on one thread, in virtual time, with every delay
// and every fault drawn from one seed. The same seed gives the same run, event by event.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace sluice::simulation {

// A defect for the simulation to find: it must not pass what is broken.
enum class Planted {
  kNothing,
  kSpoiledSlot,  // what a rank keeps changes by itself
  kDeadProcess,  // a process that crashed is never started again
  kTwoEnds,      // a client is told twice that its request ended
  kForeignRows,  // stages take rows from streams that they have not accepted
};

struct SimulationOptions {
  uint64_t seed = 1;
  bool history = false;  // keep what happened, line by line
  Planted planted = Planted::kNothing;
  int beam_percent = 12;  // of the requests that generate: searches by beams
};

struct SimulationResult {
  std::string fault;  // what went wrong, or ""
  std::vector<std::string> history;
  // What the run went through.
  int64_t num_requests = 0;
  int64_t num_faults = 0;
  int64_t num_steps = 0;
  int64_t num_recoveries = 0;
  int64_t num_kept = 0;  // of them: without computing anything again
  int64_t num_right_drafts = 0;
  int64_t num_proposed = 0;      // by the model that drafts
  int64_t num_draft_losses = 0;  // of its replica
  int64_t num_foreign_pushes = 0;
  absl::Duration healed_after;  // from the last fault's end to the last request's
};

SimulationResult Simulate(const SimulationOptions& options);

}  // namespace sluice::simulation
