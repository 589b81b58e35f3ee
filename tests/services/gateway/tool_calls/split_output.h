// What a splitter makes of a text that comes in pieces.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "services/gateway/tool_calls/output_splitter.h"

namespace sluice::gateway {

// A text, split, and its calls put together.
struct Output {
  std::string text;
  std::string reasoning;
  std::vector<ToolCall> calls;

  void Append(const OutputPiece& piece) {
    text += piece.text;
    reasoning += piece.reasoning;
    for (const ToolCallPiece& call : piece.calls) {
      if (!call.name.empty()) calls.push_back({call.name, ""});
      ASSERT_FALSE(calls.empty()) << "arguments of no call: " << call.arguments;
      calls.back().arguments += call.arguments;
    }
  }

  friend bool operator==(const Output&, const Output&) = default;
};

// What comes of a text that comes in pieces of `size` bytes.
inline Output SplitBy(OutputSplitter splitter, const std::string& text, size_t size) {
  Output all;
  for (size_t i = 0; i < text.size(); i += size) all.Append(splitter.Add(text.substr(i, size)));
  all.Append(splitter.Finish());
  return all;
}

inline void PrintTo(const Output& output, std::ostream* out) {
  *out << "text \"" << output.text << "\" reasoning \"" << output.reasoning << "\"";
  for (const ToolCall& call : output.calls)
    *out << " " << call.name << "(" << call.arguments << ")";
}

// Expects the same output however the text is cut.
inline void ExpectOutput(const OutputStyle& style, const std::vector<OfferedTool>& tools,
                         const std::string& text, const Output& expected) {
  for (const size_t size : {1, 2, 3, 7, 1000}) {
    SCOPED_TRACE(text + " by " + std::to_string(size));
    EXPECT_EQ(SplitBy(OutputSplitter(style, tools), text, size), expected);
  }
}

}  // namespace sluice::gateway
