// Paths beyond OpenAI's: /tokenize and /detokenize as vLLM has them, and /v1/score for the
// log-probability of every token of a text, or of each of several.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "services/gateway/api/api_call.h"
#include "services/gateway/http/router.h"

namespace sluice::gateway::openai {

// `context` is borrowed by the handlers.
void AddTextRoutes(http::Router& router, const ApiContext& context);

// Whether the paths take a body, whose text is `text`, as far as that depends on no model.
absl::Status CheckTokenizeBody(const nlohmann::json& body, absl::string_view text);
absl::Status CheckDetokenizeBody(const nlohmann::json& body, absl::string_view text);
absl::Status CheckScoreBody(const nlohmann::json& body, absl::string_view text);

}  // namespace sluice::gateway::openai
