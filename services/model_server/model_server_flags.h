// What embedding, shards and sampler are told alike, from their flags.
#pragma once

#include "absl/status/statusor.h"
#include "services/model_server/model_server.h"
#include "services/program/process.h"

namespace sluice {

// INVALID_ARGUMENT that names the flag and what it accepts.
absl::StatusOr<ModelServerOptions> ModelServerOptionsOf(const ProcessOptions& process);

}  // namespace sluice
