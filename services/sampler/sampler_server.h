// The sampler service as a whole: loads final norm and head and serves them.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "services/model_server/model_server.h"

namespace sluice {

// Errors of loading and of Server::Start.
absl::StatusOr<std::unique_ptr<ModelServer>> StartSamplerServer(const ModelServerOptions& options);

}  // namespace sluice
