// Formats in which model families write tool calls. There is no standard; each format is defined by
// the family's chat template.
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
  kGemma,    // ```tool_code, a line f(a=1) for each call, ```: Gemma 3
  kGemma4,   // <|tool_call>call:f{a:1,b:<|"|>x<|"|>}<tool_call|>
  kQwenXml,  // <tool_call><function=f><parameter=a>1</parameter></function></tool_call>: Qwen3-Coder
  kGlm,      // <tool_call>f<arg_key>a</arg_key><arg_value>1</arg_value></tool_call>
  kDeepSeek,  // <｜tool▁call▁begin｜>f<｜tool▁sep｜>{..}<｜tool▁call▁end｜>: V3.1; V3 and R1 by ```json
  kDsml,  // <｜DSML｜invoke name="f"><｜DSML｜parameter name="a" string="true">..: DeepSeek V3.2
  kKimi,      // <|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{..}<|tool_call_end|>
  kGranite,   // <|tool_call|>[{"name": .., "arguments": {..}}, ..]
  kLfm,       // <|tool_call_start|>[f(a=1)]<|tool_call_end|>
  kCohere,    // <|START_ACTION|>[{"tool_name": .., "parameters": {..}}, ..]<|END_ACTION|>
  kNemotron,  // <TOOLCALL>[{"name": .., "arguments": {..}}, ..]</TOOLCALL>
  kOlmo,      // <function_calls>, a line f(a=1) for each call, </function_calls>: OLMo 3
  kHarmony,   // <|channel|>commentary to=functions.f<|message|>{..}<|call|>: gpt-oss
};

constexpr int kNumToolFormats = static_cast<int>(ToolFormat::kHarmony) + 1;

// By the names of --tool_parser; nullopt for others.
std::optional<ToolFormat> ToolFormatByName(absl::string_view name);
// All of these names, separated by commas.
std::string ToolFormatNames();

// What the conversation below becomes tells the format: its assistant calls a tool, and the
// template writes the call as the model would.
google::protobuf::RepeatedPtrField<v1::ChatMessage> ProbeMessages();
std::string ProbeTools();
// By the prompt that a template made of it. Where the template leaves calls out, by what it tells
// the model about tools; kNone where it tells nothing.
ToolFormat FormatOfPrompt(absl::string_view prompt);

}  // namespace sluice::gateway
