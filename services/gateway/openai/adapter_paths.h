// Paths that load and unload adapters, as vLLM has them: /v1/load_lora_adapter and
// /v1/unload_lora_adapter.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "services/gateway/api/api_call.h"
#include "services/gateway/http/router.h"

namespace sluice::gateway::openai {

// `context` is borrowed by the handlers.
void AddAdapterRoutes(http::Router& router, const ApiContext& context);

// Whether the paths take a body, whose text is `text`.
absl::Status CheckLoadAdapterBody(const nlohmann::json& body, absl::string_view text);
absl::Status CheckUnloadAdapterBody(const nlohmann::json& body, absl::string_view text);

}  // namespace sluice::gateway::openai
