// The page at /: its files, what it shows of the pipeline, and, for demonstrations, a kill.
#pragma once

#include "services/gateway/api/api_call.h"
#include "services/gateway/http/router.h"

namespace sluice::gateway {

struct PageOptions {
  // Lets whoever sees the page kill processes that the gateway's own parent has started.
  bool demo = false;
};

// `context` is borrowed by the handlers.
void AddPageRoutes(http::Router& router, const ApiContext& context, const PageOptions& options);

}  // namespace sluice::gateway
