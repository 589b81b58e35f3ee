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

v1::EmbeddingRunRequest EmbeddingMessage(uint64_t epoch, const Step& step);
v1::ShardRunRequest ShardMessage(uint64_t epoch, const Step& step);
// For the sampler's see sampler_plans.h.

// INTERNAL where the sampler's answer contradicts itself.
absl::StatusOr<std::vector<RowResult>> ResultsFrom(const v1::SamplerExecuted& executed);

}  // namespace sluice
