// What models write where tools were offered: any text, in pieces. Nothing of it may be lost but tags and the white space
// around them, and how it is cut may not matter.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "services/gateway/tool_calls/output_splitter.h"

namespace {

using sluice::gateway::OfferedTool;
using sluice::gateway::OutputPiece;
using sluice::gateway::OutputSplitter;
using sluice::gateway::OutputStyle;
using sluice::gateway::ReasoningFormat;
using sluice::gateway::ToolCall;
using sluice::gateway::ToolCallPiece;
using sluice::gateway::ToolFormat;

const std::vector<OfferedTool>& Tools() {
  static const auto& tools = *new std::vector<OfferedTool>{
      {.name = "f",
       .parameters = R"({"properties": {"s": {"type": "string"}, "i": {"type": "integer"},
         "r": {"$ref": "#/$defs/r"}}, "$defs": {"r": {"anyOf": [{"$ref": "#/$defs/r"}]}}})"}};
  return tools;
}

struct Output {
  std::string text;
  std::string reasoning;
  std::vector<ToolCall> calls;
};

Output Split(const OutputStyle& style, const std::string& text, size_t piece) {
  OutputSplitter splitter(style, Tools());
  Output all;
  const auto append = [&](const OutputPiece& more) {
    all.text += more.text;
    all.reasoning += more.reasoning;
    for (const ToolCallPiece& call : more.calls) {
      if (!call.name.empty()) all.calls.push_back({call.name, ""});
      if (all.calls.empty()) std::abort();
      all.calls.back().arguments += call.arguments;
    }
  };
  for (size_t i = 0; i < text.size(); i += piece) append(splitter.Add(text.substr(i, piece)));
  append(splitter.Finish());
  return all;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 3) return 0;
  const OutputStyle style = {
      .tool_format = static_cast<ToolFormat>(data[0] % sluice::gateway::kNumToolFormats),
      .reasoning = static_cast<ReasoningFormat>(data[1] % sluice::gateway::kNumReasoningFormats)};
  const size_t piece = data[2] % 16 + 1;
  const std::string text(reinterpret_cast<const char*>(data + 3), size - 3);
  const Output whole = Split(style, text, text.size() + 1);
  const Output cut = Split(style, text, piece);
  if (whole.text != cut.text || whole.reasoning != cut.reasoning || whole.calls != cut.calls) {
    std::abort();
  }
  if (style.tool_format == ToolFormat::kNone && style.reasoning == ReasoningFormat::kThinkTags &&
      text.find("<think>") == std::string::npos && whole.text != text) {
    std::abort();
  }
  return 0;
}
