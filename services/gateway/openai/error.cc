#include "services/gateway/openai/error.h"

#include <algorithm>
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
    {"stop.ignore_eos", "ignore_eos"},
    {"stop.stop_token_ids", "stop_token_ids"},
    {"the number of stop.stop_strings", "stop"},
    {"the length of a string in stop.stop_strings", "stop"},
    {"max_tokens", "max_tokens"},
    {"n", "n"},
    {"best_of", "best_of"},
    {"beams.beam_width", "beam_width"},
    {"beams.num_return", "n"},
    {"beams.length_penalty", "length_penalty"},
    {"beams.stochastic", "stochastic_beams"},
    {"logprobs", "logprobs"},
    {"logprobs_mode", "logprobs_mode"},
    {"prompt_logprobs", "prompt_logprobs"},
    {"priority", "priority"},
    {"drafts.decline", "decline_drafts"},
    {"drafts.max_tokens", "max_draft_tokens"},
    {"token_ids", "prompt"},
    {"the prompt", "prompt"},
};

// Options of sampling are called the same everywhere.
std::string SamplingParameterIn(absl::string_view message) {
  constexpr absl::string_view kPrefix = "sampling.";
  const size_t at = message.find(kPrefix);
  if (at == absl::string_view::npos) return "";
  const absl::string_view rest = message.substr(at + kPrefix.size());
  const size_t length =
      std::min(rest.find_first_not_of("abcdefghijklmnopqrstuvwxyz_0123456789"), rest.size());
  return std::string(rest.substr(0, length));
}

json ParameterOf(const absl::Status& status) {
  if (const auto parameter = status.GetPayload(kParameterPayload)) return std::string(*parameter);
  const absl::string_view message = status.message();
  for (const FieldName& name : kFieldNames) {
    const absl::string_view field = name.field;
    if (message.substr(0, field.size()) != field || message.size() == field.size()) continue;
    if (const char next = message[field.size()]; next == ' ' || next == '[' || next == '\'') {
      return name.parameter;
    }
  }
  const std::string sampling = SamplingParameterIn(message);
  return sampling.empty() ? json(nullptr) : json(sampling);
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
