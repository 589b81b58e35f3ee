// Calls as Python writes them: f(a=1, b="x", c=[True, None]).
#pragma once

#include <vector>

#include "absl/strings/string_view.h"
#include "services/gateway/tool_calls/tool_call.h"

namespace sluice::gateway {

// Calls with arguments by keyword, separated by commas or line breaks; in brackets where they are a
// list, or in print(..), as Gemma writes them. Values are literals (python_literals.h). Empty where the
// text is anything else.
std::vector<ToolCall> ParsePythonCalls(absl::string_view text);

}  // namespace sluice::gateway
