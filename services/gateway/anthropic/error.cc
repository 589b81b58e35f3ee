#include "services/gateway/anthropic/error.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/gateway/api/http_status.h"
#include "services/gateway/api/sent_names.h"
#include "services/gateway/json/json_text.h"

namespace sluice::gateway::anthropic {
namespace {

using nlohmann::json;

const char* ErrorType(int http_status) {
  switch (http_status) {
    case 400:
      return "invalid_request_error";
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    case 504:
      return "timeout_error";
    default:
      return "api_error";
  }
}

// Anthropic's words, which clients look for.
std::string MessageOf(const absl::Status& failure) {
  const absl::Status status = AsSent(failure, {.prompt = "messages", .stop = "stop_sequences"});
  const std::optional<ContextOverflow> overflow = ContextOverflowOf(status);
  if (!overflow.has_value()) return std::string(status.message());
  const auto& [prompt, most, context] = *overflow;
  if (most == 0) {
    return absl::StrCat("prompt is too long: ", prompt, " tokens > ", context - 1, " maximum");
  }
  return absl::StrCat("input length and `max_tokens` exceed context limit: ", prompt, " + ", most,
                      " > ", context, ", decrease input length or `max_tokens` and try again");
}

json ErrorBody(const absl::Status& status, const std::string& request_id) {
  return {{"type", "error"},
          {"error", {{"type", ErrorType(HttpStatus(status))}, {"message", MessageOf(status)}}},
          {"request_id", request_id}};
}

}  // namespace

http::Response ErrorResponse(const absl::Status& status, const std::string& request_id) {
  http::Response response = {.status = HttpStatus(status),
                             .headers = {{"content-type", "application/json"}},
                             .body = ToJson(ErrorBody(status, request_id))};
  AddRetryAfter(response, status);
  return response;
}

void AnswerError(ApiCall& call, const absl::Status& status) {
  if (!call.has_sent_events()) return call.Respond(ErrorResponse(status, call.id()));
  call.SendEvent("error", ToJson(ErrorBody(status, call.id())));
  call.EndEvents();
}

absl::Status ModelNotFound(const std::string& model) {
  return absl::NotFoundError(absl::StrCat("model: ", model));
}

}  // namespace sluice::gateway::anthropic
