// The paths of OpenAI's API that are served.
#pragma once

#include "services/gateway/api/api_call.h"
#include "services/gateway/http/router.h"

namespace sluice::gateway::openai {

// `context` is borrowed by the handlers.
void AddRoutes(http::Router& router, const ApiContext& context);

}  // namespace sluice::gateway::openai
