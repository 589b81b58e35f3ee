// How families of models write down that they call a tool. None of them has a standard; each is
// what the family's chat template shows the model.
#pragma once

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "sluice/v1/tokenizer.pb.h"

namespace sluice::gateway {

enum class ToolFormat {
  kNone,       // texts are texts
  kHermes,     // <tool_call>{"name": .., "arguments": {..}}</tool_call>: Hermes, Qwen
  kLlamaJson,  // {"name": .., "parameters": {..}} as the whole text, several by ';': Llama 3
  kPythonic,   // [f(a=1), g(b="x")] as the whole text: Llama 4, 3.2
  kMistral,  // [TOOL_CALLS] [{"name": .., "arguments": {..}}, ..], or name[ARGS]{..} for each call
  kPhi,      // functools[{"name": .., "arguments": {..}}, ..]
  kGemma,    // ```tool_code, a line f(a=1) for each call, ```
};

// By the names of --tool_parser: hermes, llama3_json, pythonic, mistral, phi, gemma, none; nullopt
// for others.
std::optional<ToolFormat> ToolFormatByName(absl::string_view name);

// What the conversation below becomes tells the format: its assistant calls a tool, and the
// template writes the call as the model would.
google::protobuf::RepeatedPtrField<v1::ChatMessage> ProbeMessages();
std::string ProbeTools();
// By the prompt that a template made of it; kNone where the template leaves calls out.
ToolFormat FormatOfPrompt(absl::string_view prompt);

}  // namespace sluice::gateway
