// Errors as Anthropic spells them: {"type": "error", "error": {"type", "message"}, "request_id"}.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/status.h"
#include "services/gateway/api/api_call.h"
#include "services/gateway/http/message.h"

namespace sluice::gateway::anthropic {

// The response, with Retry-After where the server said when to come again.
http::Response ErrorResponse(const absl::Status& status, const std::string& request_id = "");
// Answers a call with it: as its response, or in mid-stream as the last event.
void AnswerError(ApiCall& call, const absl::Status& status);

// 404: the model that was asked for is not the one that is served.
absl::Status ModelNotFound(const std::string& model);

}  // namespace sluice::gateway::anthropic
