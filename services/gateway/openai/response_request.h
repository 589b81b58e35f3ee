// A body of POST /v1/responses as a value.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "services/gateway/tool_calls/tool_choice.h"
#include "sluice/v1/generation.pb.h"

namespace sluice::gateway::openai {

struct ResponseRequest {
  std::string model;
  bool stream = false;
  nlohmann::json echoed;     // what the response object repeats of the request
  std::string service_tier;  // as it is answered
  ToolChoice tools;
  v1::GenerateRequest generate;  // complete but for what keeps the choice of tools
};

// `text` is what `body` was parsed from. INVALID_ARGUMENT with the payloads of
// json/object_reader.h.
absl::StatusOr<ResponseRequest> ReadResponseRequest(const nlohmann::json& body,
                                                    absl::string_view text);

}  // namespace sluice::gateway::openai
