// `tools`, `tool_choice` and `parallel_tool_calls`, as chat completions and responses have them.
#pragma once

#include "absl/strings/string_view.h"
#include "services/gateway/json/object_reader.h"
#include "services/gateway/tool_calls/tool_choice.h"
#include "sluice/v1/generation.pb.h"

namespace sluice::gateway::openai {

// Where a tool's name and schema are: in a member `function` of its own, or in the tool itself.
enum class ToolLayout { kChat, kResponses };

// `text` is what the reader's object was parsed from. Tools that may be called are told to the chat.
ToolChoice ReadTools(ObjectReader& reader, absl::string_view text, ToolLayout layout,
                     v1::Chat& chat);

}  // namespace sluice::gateway::openai
