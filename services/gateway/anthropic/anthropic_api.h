// The paths of Anthropic's API that are served.
#pragma once

#include "services/gateway/api/api_call.h"
#include "services/gateway/http/router.h"

namespace sluice::gateway::anthropic {

// `context` is borrowed by the handlers.
void AddRoutes(http::Router& router, const ApiContext& context);

}  // namespace sluice::gateway::anthropic
