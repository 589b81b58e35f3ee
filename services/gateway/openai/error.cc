#include "services/gateway/openai/error.h"

#include <optional>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "services/gateway/api/http_status.h"
#include "services/gateway/api/sent_names.h"
#include "services/gateway/json/json_text.h"
#include "services/gateway/json/object_reader.h"
#include "services/messages/error_reason.h"

namespace sluice::gateway::openai {
namespace {

using nlohmann::json;

const char* TypeOf(int http_status) {
  switch (http_status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 429:
      return "rate_limit_error";
    default:
      return http_status < 500 ? "invalid_request_error" : "server_error";
  }
}

json CodeOf(const absl::Status& status) {
  if (const auto code = status.GetPayload(kCodePayload)) return std::string(*code);
  switch (status.code()) {
    case absl::StatusCode::kUnauthenticated:
      return "invalid_api_key";
    case absl::StatusCode::kResourceExhausted:
      if (const auto reason = ErrorReason(status)) return absl::AsciiStrToLower(*reason);
      return "rate_limit_exceeded";
    default:
      return nullptr;
  }
}

json ParameterOf(const absl::Status& status) {
  const auto parameter = status.GetPayload(kParameterPayload);
  return parameter.has_value() ? json(std::string(*parameter)) : json(nullptr);
}

// OpenAI's words, which clients look for.
std::string MessageOf(const absl::Status& status) {
  const std::optional<ContextOverflow> overflow = ContextOverflowOf(status);
  if (!overflow.has_value()) return std::string(status.message());
  const auto& [prompt, most, context] = *overflow;
  const std::string begin =
      absl::StrCat("This model's maximum context length is ", context, " tokens. However, ");
  if (most == 0) {
    return absl::StrCat(begin, "the prompt has ", prompt, " tokens; accepted: up to ", context - 1,
                        ". Please reduce the length of the messages.");
  }
  return absl::StrCat(
      begin, "you requested ", prompt + most, " tokens (", prompt, " in the prompt, ", most,
      " in the completion); accepted: 1 to ", context - prompt,
      " in the completion. Please reduce the length of the messages or completion.");
}

json Body(absl::string_view message, const char* type, json parameter, json code) {
  return {{"error",
           {{"message", std::string(message)},
            {"type", type},
            {"param", std::move(parameter)},
            {"code", std::move(code)}}}};
}

http::Response JsonResponse(int http_status, const json& body) {
  return {.status = http_status,
          .headers = {{"content-type", "application/json"}},
          .body = ToJson(body)};
}

}  // namespace

json ErrorBody(const absl::Status& failure) {
  const absl::Status status = AsSent(failure);
  return Body(MessageOf(status), TypeOf(HttpStatus(status)), ParameterOf(status), CodeOf(status));
}

http::Response ErrorResponse(const absl::Status& status) {
  http::Response response = JsonResponse(HttpStatus(status), ErrorBody(status));
  AddRetryAfter(response, status);
  return response;
}

void AnswerError(ApiCall& call, const absl::Status& status) {
  if (!call.has_sent_events()) return call.Respond(ErrorResponse(status));
  call.SendEvent(ToJson(ErrorBody(status)));
  call.SendEvent("[DONE]");
  call.EndEvents();
}

http::Response ErrorResponse(int http_status, absl::string_view message) {
  return JsonResponse(http_status, Body(message, TypeOf(http_status), nullptr, nullptr));
}

absl::Status ModelNotFound(absl::string_view model) {
  absl::Status status =
      absl::NotFoundError(absl::StrCat("The model `", model, "` does not exist here."));
  status.SetPayload(kParameterPayload, absl::Cord("model"));
  status.SetPayload(kCodePayload, absl::Cord("model_not_found"));
  return status;
}

}  // namespace sluice::gateway::openai
