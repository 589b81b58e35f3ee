// Errors as OpenAI spells them: {"error": {"message", "type", "param", "code"}}.
#pragma once

#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "services/gateway/api/api_call.h"
#include "services/gateway/http/message.h"

namespace sluice::gateway::openai {

// The body. Messages of the gRPC API speak of parameters (api/sent_names.h).
nlohmann::json ErrorBody(const absl::Status& status);
// Both, with Retry-After where the server said when to come again.
http::Response ErrorResponse(const absl::Status& status);
// Answers a call with it: as its response, or in mid-stream as the last event but "[DONE]".
void AnswerError(ApiCall& call, const absl::Status& status);
// Errors of HTTP itself, such as 404 and 413.
http::Response ErrorResponse(int http_status, absl::string_view message);

// 404: the model that was asked for is not the one that is served.
absl::Status ModelNotFound(absl::string_view model);

}  // namespace sluice::gateway::openai
