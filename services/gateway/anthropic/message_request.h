// A body of POST /v1/messages, or of its count_tokens, as a value.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "services/gateway/tool_calls/tool_choice.h"
#include "sluice/v1/generation.pb.h"

namespace sluice::gateway::anthropic {

struct MessageRequest {
  std::string model;
  bool stream = false;
  ToolChoice tools;
  // Complete but for what keeps the choice of tools; where tokens are counted, the chat alone.
  v1::GenerateRequest generate;
};

// `text` is what `body` was parsed from. INVALID_ARGUMENT with the payloads of json/object_reader.h.
absl::StatusOr<MessageRequest> ReadMessageRequest(const nlohmann::json& body,
                                                  absl::string_view text);
// The same without what only matters to generating.
absl::StatusOr<MessageRequest> ReadCountRequest(const nlohmann::json& body, absl::string_view text);

}  // namespace sluice::gateway::anthropic
