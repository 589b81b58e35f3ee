// Health and metadata of the Open Inference Protocol, version 2, as KServe asks for them.
// Source: https://github.com/kserve/open-inference-protocol,
// specification/protocol/inference_rest.md
#pragma once

#include "services/gateway/api/api_call.h"
#include "services/gateway/http/router.h"

namespace sluice::gateway::kserve {

// `context` is borrowed by the handlers.
void AddRoutes(http::Router& router, const ApiContext& context);

}  // namespace sluice::gateway::kserve
