#include "services/gateway/tool_calls/format.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace sluice::gateway {
namespace {

constexpr struct {
  const char* name;
  ToolFormat format;
} kFormats[] = {
    {"none", ToolFormat::kNone},
    {"hermes", ToolFormat::kHermes},
    {"llama3_json", ToolFormat::kLlamaJson},
    {"pythonic", ToolFormat::kPythonic},
    {"mistral", ToolFormat::kMistral},
    {"phi", ToolFormat::kPhi},
    {"gemma", ToolFormat::kGemma},
    {"gemma4", ToolFormat::kGemma4},
    {"qwen3_xml", ToolFormat::kQwenXml},
    {"glm", ToolFormat::kGlm},
    {"deepseek", ToolFormat::kDeepSeek},
    {"deepseek_v32", ToolFormat::kDsml},
    {"kimi", ToolFormat::kKimi},
    {"granite", ToolFormat::kGranite},
    {"lfm", ToolFormat::kLfm},
    {"cohere", ToolFormat::kCohere},
    {"nemotron", ToolFormat::kNemotron},
    {"olmo3", ToolFormat::kOlmo},
    {"harmony", ToolFormat::kHarmony},
};

// What a template without calls shows of their format.
constexpr struct {
  const char* mark;
  ToolFormat format;
} kMarks[] = {
    {"<|channel|>", ToolFormat::kHarmony},
    {"<|tool>declaration:", ToolFormat::kGemma4},
    {"<|START_ACTION|>", ToolFormat::kCohere},
    {"<TOOLCALL>", ToolFormat::kNemotron},
    {"<function_calls>", ToolFormat::kOlmo},
    {"<function=", ToolFormat::kQwenXml},
    {"<arg_key>", ToolFormat::kGlm},
    {"<｜DSML｜", ToolFormat::kDsml},
    {"<｜tool▁call", ToolFormat::kDeepSeek},
    {"<|tool_call_begin|>", ToolFormat::kKimi},
    {"<|im_system|>tool_declare", ToolFormat::kKimi},
    {"<|tool_list_start|>", ToolFormat::kLfm},
    {"<|tool_call_start|>", ToolFormat::kLfm},
    {"respond with <|tool_call|>", ToolFormat::kGranite},
    {"<tool_call>", ToolFormat::kHermes},
};

ToolFormat FormatOfInstructions(absl::string_view prompt) {
  for (const auto& entry : kMarks) {
    if (absl::StrContains(prompt, entry.mark)) return entry.format;
  }
  return ToolFormat::kNone;
}

// Of a call behind <tool_call>.
ToolFormat FormatOfTaggedCall(absl::string_view before, absl::string_view after) {
  if (absl::EndsWith(before, "<function=")) return ToolFormat::kQwenXml;
  return absl::StrContains(after, "<arg_key>") ? ToolFormat::kGlm : ToolFormat::kHermes;
}

}  // namespace

std::string ToolFormatNames() {
  std::string names;
  for (const auto& entry : kFormats) {
    absl::StrAppend(&names, names.empty() ? "" : ", ", entry.name);
  }
  return names;
}

std::optional<ToolFormat> ToolFormatByName(absl::string_view name) {
  for (const auto& entry : kFormats) {
    if (name == entry.name) return entry.format;
  }
  return std::nullopt;
}

google::protobuf::RepeatedPtrField<v1::ChatMessage> ProbeMessages() {
  google::protobuf::RepeatedPtrField<v1::ChatMessage> messages;
  v1::ChatMessage& user = *messages.Add();
  user.set_role("user");
  user.set_content("x");
  v1::ChatMessage& assistant = *messages.Add();
  assistant.set_role("assistant");
  // Mistral's templates insist on ids of nine letters.
  assistant.set_extra_json(R"({"tool_calls": [{"id": "aaaaaaaaa", "type": "function", "function": )"
                           R"({"name": "probe", "arguments": {"key": "value"}}}]})");
  return messages;
}

std::string ProbeTools() {
  return R"([{"type": "function", "function": {"name": "other", "description": "x", )"
         R"("parameters": {"type": "object", "properties": {}}}}])";
}

ToolFormat FormatOfPrompt(absl::string_view prompt) {
  const size_t call = prompt.rfind("probe");
  if (call == absl::string_view::npos) return FormatOfInstructions(prompt);
  const absl::string_view before = prompt.substr(0, call);
  const absl::string_view after = prompt.substr(call);
  if (absl::EndsWith(before, "to=functions.")) return ToolFormat::kHarmony;
  if (absl::EndsWith(before, "<|tool_call>call:")) return ToolFormat::kGemma4;
  if (absl::StrContains(before, "<|START_ACTION|>")) return ToolFormat::kCohere;
  if (absl::StrContains(before, "<TOOLCALL>")) return ToolFormat::kNemotron;
  if (absl::StrContains(before, "<function_calls>")) return ToolFormat::kOlmo;
  if (absl::StrContains(before, "<|tool_call_begin|>")) return ToolFormat::kKimi;
  if (absl::EndsWith(before, "<｜DSML｜invoke name=\"")) return ToolFormat::kDsml;
  if (absl::StrContains(before, "<｜tool▁call▁begin｜>")) return ToolFormat::kDeepSeek;
  if (absl::StrContains(before, "<|tool_call_start|>")) return ToolFormat::kLfm;
  if (absl::StrContains(before, "respond with <|tool_call|>")) return ToolFormat::kGranite;
  if (absl::StrContains(before, "<tool_call>") || absl::EndsWith(before, "<function=")) {
    return FormatOfTaggedCall(before, after);
  }
  if (absl::StrContains(before, "[TOOL_CALLS]")) return ToolFormat::kMistral;
  if (absl::StrContains(before, "functools[") || absl::StrContains(before, "<|tool_call|>")) {
    return ToolFormat::kPhi;
  }
  if (absl::StrContains(before, "```tool_code")) return ToolFormat::kGemma;
  if (absl::EndsWith(before, "[") && absl::StartsWith(after, "probe(")) {
    return ToolFormat::kPythonic;
  }
  if (absl::StrContains(after, "\"parameters\"")) return ToolFormat::kLlamaJson;
  return ToolFormat::kNone;
}

}  // namespace sluice::gateway
