// The paths of OpenAI's API that are served.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "services/gateway/api/api_call.h"
#include "services/gateway/http/router.h"

namespace sluice::gateway::openai {

// `context` is borrowed by the handlers.
void AddRoutes(http::Router& router, const ApiContext& context);

// A model, and one of its adapters, as /v1/models lists them.
nlohmann::json ModelObject(const v1::GetModelResponse& model);
nlohmann::json AdapterObject(const std::string& name, const v1::GetModelResponse& base);

}  // namespace sluice::gateway::openai
