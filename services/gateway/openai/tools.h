// `tools`, `tool_choice` and `parallel_tool_calls`, as chat completions and responses have them.
#pragma once

#include <nlohmann/json.hpp>

#include "absl/strings/string_view.h"
#include "services/gateway/json/object_reader.h"
#include "services/gateway/tool_calls/tool_choice.h"
#include "sluice/v1/generation.pb.h"

namespace sluice::gateway::openai {

// Where a tool's name and schema are: in a member `function` of its own, or in the tool itself.
enum class ToolLayout { kChat, kResponses };

// Whether a tool of a response is one that no model here can be offered: OpenAI's servers run it,
// or their models alone know it. Such tools are left out, as agents send them whether or not they
// can be had; one that `tool_choice` names is refused.
bool IsForeignTool(const nlohmann::json& tool);

// `text` is what the reader's object was parsed from. Tools that may be called are told to the
// chat.
ToolChoice ReadTools(ObjectReader& reader, absl::string_view text, ToolLayout layout,
                     v1::Chat& chat);

}  // namespace sluice::gateway::openai
