// Checks by arithmetic, before anything starts, whether a whole pipeline fits into the memory of
// this host.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "clients/cli/model_flags.h"

namespace sluice {

// CheckFits (memory_check.h) of all processes together, the draft model's among them; `folder` is
// the served model's. OK, and nothing is read, where there is no limit or GPUs keep it all. Errors
// of loading configurations and of opening weights.
absl::Status CheckPipelineFits(const ModelFlags& flags, const std::string& folder,
                               uint64_t limit_bytes);

}  // namespace sluice
