// The paths of OpenAI's API that are served.
#pragma once

#include <nlohmann/json.hpp>

#include "services/gateway/api/api_call.h"
#include "services/gateway/http/router.h"

namespace sluice::gateway::openai {

// `context` is borrowed by the handlers.
void AddRoutes(http::Router& router, const ApiContext& context);

// A model as /v1/models lists it.
nlohmann::json ModelObject(const v1::GetModelResponse& model);

}  // namespace sluice::gateway::openai
