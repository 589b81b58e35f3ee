// GET /openapi.json: the HTTP API as an OpenAPI 3.1 document, made of path_table.h.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "services/gateway/http/router.h"

namespace sluice::gateway {

nlohmann::json OpenApiDocument();

// Answers with the document, which is made on the first request.
void AddOpenApiRoute(http::Router& router);

}  // namespace sluice::gateway
