// OpenAI's /v1/files and /v1/batches.
#pragma once

#include "services/gateway/api/api_call.h"
#include "services/gateway/batches/batch_service.h"
#include "services/gateway/http/router.h"

namespace sluice::gateway {

// Returns the service that requests go to, as long as they are served; null: the paths answer how
// batches are switched on.
using BatchServiceSource = std::function<BatchService*()>;

// `context` is borrowed by the handlers. Callers whom the orchestrator does not serve are refused; each
// sees the files and batches that were made with the same API key.
void AddBatchRoutes(http::Router& router, const ApiContext& context, BatchServiceSource service);

// Of an API key as `Authorization` has it: whose files and batches they are. "public" without one.
std::string OwnerOf(absl::string_view authorization);

}  // namespace sluice::gateway
