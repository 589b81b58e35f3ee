// A call of a tool that a model has written.
#pragma once

#include <string>

namespace sluice::gateway {

struct ToolCall {
  std::string name;
  std::string arguments;  // a JSON object as text

  friend bool operator==(const ToolCall&, const ToolCall&) = default;
};

// A part of one, as it comes: the pieces' arguments put together are the call's.
struct ToolCallPiece {
  std::string name;  // of a call that begins here; empty: more of the last one's arguments
  std::string arguments;
};

}  // namespace sluice::gateway
