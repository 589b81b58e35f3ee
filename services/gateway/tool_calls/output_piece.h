// A final piece of a model's output.
#pragma once

#include <string>
#include <vector>

#include "services/gateway/tool_calls/tool_call.h"

namespace sluice::gateway {

struct OutputPiece {
  std::string text;
  std::string reasoning;
  std::vector<ToolCallPiece> calls;

  bool empty() const { return text.empty() && reasoning.empty() && calls.empty(); }
};

}  // namespace sluice::gateway
