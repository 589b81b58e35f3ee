// Variables of a chat template, from a request.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "absl/status/statusor.h"
#include "sluice/v1/tokenizer.pb.h"

namespace sluice {

// A JSON object of messages, tools, documents, add_generation_prompt and the request's further
// variables. INVALID_ARGUMENT naming the field that is no JSON of the kind that it should be.
//
// A tool's message without a `name` gets that of the call that its `tool_call_id` answers, for
// templates that show it. Where the request continues a final message that has no content,
// that message is left out and begun.
absl::StatusOr<nlohmann::ordered_json> ChatContext(const v1::ApplyChatTemplateRequest& request);

}  // namespace sluice
