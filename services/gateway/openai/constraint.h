// Constraints on the output: OpenAI's parameters and vLLM's.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "services/gateway/json/object_reader.h"
#include "sluice/v1/generation.pb.h"

namespace sluice::gateway::openai {

// response_format; guided_json, guided_regex, guided_choice, guided_grammar; structured_outputs. At
// most one of them may ask for something. `text` is the body as it was sent: a schema's properties
// are written in its order. Faults go to the reader. Returns which it was; empty where none.
std::string ReadConstraint(ObjectReader& reader, absl::string_view text,
                           v1::GenerateRequest& request);

// text.format of responses, of which `fields` reads `text`.
void ReadTextFormat(ObjectReader& fields, absl::string_view text, v1::GenerateRequest& request);

}  // namespace sluice::gateway::openai
