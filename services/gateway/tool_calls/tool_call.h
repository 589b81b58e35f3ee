// A call of a tool that a model has written.
#pragma once

#include <string>

namespace sluice::gateway {

struct ToolCall {
  std::string name;
  std::string arguments;  // a JSON object as text

  friend bool operator==(const ToolCall&, const ToolCall&) = default;
};

}  // namespace sluice::gateway
