#include "services/gateway/openai/error.h"

#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "services/gateway/api/http_status.h"
#include "services/gateway/json/json_text.h"
#include "services/gateway/json/object_reader.h"

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
      return "rate_limit_exceeded";
    default:
      return nullptr;
  }
}

// Fields of the gRPC API whose messages begin with their name, and what they are called here.
struct FieldName {
  const char* field;
  const char* parameter;
};
constexpr FieldName kFieldNames[] = {
    {"sampling.temperature", "temperature"},
    {"sampling.top_k", "top_k"},
    {"sampling.top_p", "top_p"},
    {"sampling.seed", "seed"},
    {"stop.stop_token_ids", "stop_token_ids"},
    {"the number of stop.stop_strings", "stop"},
    {"the length of a string in stop.stop_strings", "stop"},
    {"max_tokens", "max_tokens"},
    {"n", "n"},
    {"logprobs", "logprobs"},
    {"token_ids", "prompt"},
    {"the prompt", "prompt"},
};

json ParameterOf(const absl::Status& status) {
  if (const auto parameter = status.GetPayload(kParameterPayload)) return std::string(*parameter);
  for (const FieldName& name : kFieldNames) {
    const absl::string_view field = name.field;
    const absl::string_view message = status.message();
    if (message.substr(0, field.size()) != field || message.size() == field.size()) continue;
    if (const char next = message[field.size()]; next == ' ' || next == '[' || next == '\'') {
      return name.parameter;
    }
  }
  return nullptr;
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

json ErrorBody(const absl::Status& status) {
  return Body({status.message().data(), status.message().size()}, TypeOf(HttpStatus(status)),
              ParameterOf(status), CodeOf(status));
}

http::Response ErrorResponse(const absl::Status& status) {
  http::Response response = JsonResponse(HttpStatus(status), ErrorBody(status));
  AddRetryAfter(response, status);
  return response;
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
