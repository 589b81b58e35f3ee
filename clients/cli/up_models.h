// `sluice up --config`: several models behind one gateway.
#pragma once

#include "absl/status/status.h"
#include "clients/cli/environment.h"
#include "clients/cli/up_config.h"

namespace sluice {

// Serves until interrupted: OK then. What keeps a model from being served, or those awake at first from
// fitting into memory together, is found before a process is started.
absl::Status ServeModels(UpConfig config, Environment& environment);

}  // namespace sluice
