// Which models a kind of device computes. Pure functions of the configuration.
#pragma once

#include "absl/status/status.h"
#include "services/model/model_config.h"

namespace sluice {

// UNIMPLEMENTED, naming what the model needs, where GPUs lack an operation of it.
absl::Status CheckGpuComputes(const ModelConfig& config);

}  // namespace sluice
