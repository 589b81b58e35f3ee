// A body of POST /v1/messages, or of its count_tokens, as a value.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "sluice/v1/generation.pb.h"

namespace sluice::gateway::anthropic {

struct MessageRequest {
  std::string model;
  bool stream = false;
  v1::GenerateRequest generate;  // complete; where tokens are counted, the chat alone
};

// INVALID_ARGUMENT with the payloads of json/object_reader.h.
absl::StatusOr<MessageRequest> ReadMessageRequest(const nlohmann::json& body);
// The same without what only matters to generating.
absl::StatusOr<MessageRequest> ReadCountRequest(const nlohmann::json& body);

}  // namespace sluice::gateway::anthropic
