// Paths of models that embed, judge or classify texts: OpenAI's /v1/embeddings; /rerank, /v1/rerank and
// /v2/rerank as vLLM, Jina and Cohere have them; vLLM's /score and /classify.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "services/gateway/api/api_call.h"
#include "services/gateway/http/router.h"

namespace sluice::gateway::openai {

// `context` is borrowed by the handlers.
void AddEmbeddingRoutes(http::Router& router, const ApiContext& context);

// Whether the paths take a body, as far as that depends on no model.
absl::Status CheckEmbeddingsBody(const nlohmann::json& body, absl::string_view text);
absl::Status CheckRerankBody(const nlohmann::json& body, absl::string_view text);
absl::Status CheckPairScoreBody(const nlohmann::json& body, absl::string_view text);
absl::Status CheckClassifyBody(const nlohmann::json& body, absl::string_view text);

}  // namespace sluice::gateway::openai
