// Translates between the scheduler's steps and the messages of each stage. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "orchestrator/pipeline/rows.h"
#include "orchestrator/scheduler/step.h"
#include "sluice/v1/stage.pb.h"

namespace sluice {

// What a step's plans have in common: its number, its epoch, and what is in adapters' slots.
void SetStep(uint64_t epoch, const Step& step, v1::StageExecute& execute);

// Make `request` the message of a step. What it was is dropped, and its memory is used again: a step
// is much like the one before. For the sampler's see sampler_plans.h.
void SetEmbeddingMessage(uint64_t epoch, const Step& step, v1::StageRunRequest& request);
void SetShardMessage(uint64_t epoch, const Step& step, v1::StageRunRequest& request);

// INTERNAL where the sampler's answer contradicts itself.
absl::StatusOr<std::vector<RowResult>> ResultsFrom(const v1::StageExecuted& executed);

}  // namespace sluice
