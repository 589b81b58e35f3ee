// Which adapter a request is computed with. Pure functions.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "orchestrator/adapters/adapter_registry.h"
#include "orchestrator/engine/engine.h"

namespace sluice {

// UNIMPLEMENTED where the model's shards compute on GPUs, which compute no adapters.
absl::Status CheckComputesAdapters(const Engine& engine);

// What EngineRequest::adapter names the adapter `name` by; empty for an empty name. Without a registry
// no adapter is known. Errors as above and as AdapterRegistry::IdOf.
absl::StatusOr<std::string> AdapterOf(const AdapterRegistry* registry, const Engine& engine,
                                      const std::string& name);

}  // namespace sluice
