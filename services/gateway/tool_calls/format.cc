#include "services/gateway/tool_calls/format.h"

#include "absl/strings/match.h"

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
};

}  // namespace

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
  if (call == absl::string_view::npos) return ToolFormat::kNone;
  const absl::string_view before = prompt.substr(0, call);
  const absl::string_view after = prompt.substr(call);
  if (absl::StrContains(before, "<tool_call>")) return ToolFormat::kHermes;
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
