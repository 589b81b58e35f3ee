// Paths beyond OpenAI's: /tokenize and /detokenize as vLLM has them, and /v1/score for the
// log-probability of every token of a text, or of each of several.
#pragma once

#include "services/gateway/api/api_call.h"
#include "services/gateway/http/router.h"

namespace sluice::gateway::openai {

// `context` is borrowed by the handlers.
void AddTextRoutes(http::Router& router, const ApiContext& context);

}  // namespace sluice::gateway::openai
