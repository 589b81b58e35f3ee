// The page at /: its files, what it shows of the pipeline, and, for demonstrations, a kill.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "services/gateway/api/api_call.h"
#include "services/gateway/http/router.h"

namespace sluice::gateway {

struct PageOptions {
  // For demonstrations (services/gateway/demo): ends the process at an address of the pipeline, for
  // callers who know the token. Null: there is no such path.
  std::string demo_token;
  std::function<absl::Status(const std::string& address)> kill;
};

// `context` is borrowed by the handlers.
void AddPageRoutes(http::Router& router, const ApiContext& context, const PageOptions& options);

}  // namespace sluice::gateway
