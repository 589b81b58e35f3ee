// What a request says of a conversation as the variables of a chat template.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "absl/status/statusor.h"
#include "sluice/v1/tokenizer.pb.h"

namespace sluice {

// A JSON object of messages, tools, documents, add_generation_prompt and the request's further
// variables. INVALID_ARGUMENT naming the field that is no JSON of the kind that it should be.
absl::StatusOr<nlohmann::ordered_json> ChatContext(const v1::ApplyChatTemplateRequest& request);

}  // namespace sluice
