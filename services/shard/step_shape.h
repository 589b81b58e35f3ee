// How much memory the activations of a rank's largest step take, from what its layers are. Pure
// functions.
#pragma once

#include <cstdint>

#include "kernels/backend.h"
#include "services/model/model_config.h"
#include "services/model/shard_plan.h"
#include "services/shard/step_arena.h"

namespace sluice {

// Of steps of up to `max_rows` rows, rounded up as `backend` computes them.
StepShape ShapeOfStep(const ModelConfig& config, const ShardPlan& plan, int64_t max_rows,
                      const Backend& backend);

// Whether queries and keys are normalised over all heads, so that ranks sum their squares.
bool NormsWholeQk(const AttentionSpec& attention);
// Whether a norm of the layer takes what all ranks have of a row: this one, or Mamba-2's of all heads.
bool NormsOverRanks(const AttentionSpec& attention);

}  // namespace sluice
