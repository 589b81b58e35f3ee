// Translates between the scheduler's steps and the messages of each stage. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "orchestrator/pipeline/rows.h"
#include "orchestrator/scheduler/step.h"
#include "sluice/v1/embedding.pb.h"
#include "sluice/v1/sampler.pb.h"
#include "sluice/v1/shard.pb.h"

namespace sluice {

// Make `request` the message of a step. What it was is dropped, and its memory is used again: a step
// is much like the one before. For the sampler's see sampler_plans.h.
void SetMessage(uint64_t epoch, const Step& step, v1::EmbeddingRunRequest& request);
void SetMessage(uint64_t epoch, const Step& step, v1::ShardRunRequest& request);

// INTERNAL where the sampler's answer contradicts itself.
absl::StatusOr<std::vector<RowResult>> ResultsFrom(const v1::SamplerExecuted& executed);

}  // namespace sluice
