// Checks by arithmetic, before anything starts, whether a whole pipeline fits into the memory of
// this host.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "clients/cli/model_flags.h"
#include "services/model/memory_check.h"

namespace sluice {

// What all processes together keep in memory of the host, the draft model's among them; `folder` is the
// served model's. Nothing where GPUs keep it all. Errors of loading configurations and of opening weights.
absl::StatusOr<KeptMemory> PipelineMemory(const ModelFlags& flags, const std::string& folder);

// CheckFits (memory_check.h) of PipelineMemory(). OK, and nothing is read, where there is no limit or
// GPUs keep it all.
absl::Status CheckPipelineFits(const ModelFlags& flags, const std::string& folder,
                               uint64_t limit_bytes);

}  // namespace sluice
