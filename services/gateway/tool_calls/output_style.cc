#include "services/gateway/tool_calls/output_style.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "services/gateway/tool_calls/brace_calls.h"
#include "services/gateway/tool_calls/harmony_splitter.h"
#include "services/gateway/tool_calls/section_calls.h"

namespace sluice::gateway {
namespace {

void Append(std::vector<std::string>& all, const std::vector<std::string>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

std::vector<std::string> AllOf(const SectionTags& tags) {
  return {tags.section_begin, tags.call_begin, tags.separator, tags.call_end, tags.section_end};
}

std::vector<std::string> SpecialTokensOf(ToolFormat format) {
  switch (format) {
    case ToolFormat::kNone:
    case ToolFormat::kPythonic:
    case ToolFormat::kGemma:
    case ToolFormat::kHarmony:
      return {};
    case ToolFormat::kHermes:
    case ToolFormat::kQwenXml:
      return {"<tool_call>", "</tool_call>"};
    case ToolFormat::kGemma4:
      return {"<|tool_call>", "<tool_call|>", kGemma4Quote};
    case ToolFormat::kGlm:
      return {"<tool_call>", "</tool_call>", "<arg_key>",
              "</arg_key>",  "<arg_value>",  "</arg_value>"};
    case ToolFormat::kLlamaJson:
      return {"<|python_tag|>"};
    case ToolFormat::kMistral:
      return {"[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"};
    case ToolFormat::kPhi:
      return {"<|tool_call|>", "<|/tool_call|>"};
    case ToolFormat::kGranite:
      return {"<|tool_call|>", "<tool_call>"};
    case ToolFormat::kLfm:
      return {"<|tool_call_start|>", "<|tool_call_end|>"};
    case ToolFormat::kCohere:
      return {"<|START_ACTION|>", "<|END_ACTION|>"};
    case ToolFormat::kNemotron:
      return {"<TOOLCALL>", "</TOOLCALL>"};
    case ToolFormat::kOlmo:
      return {"<function_calls>", "</function_calls>"};
    case ToolFormat::kKimi:
      return AllOf(kKimiTags);
    case ToolFormat::kDeepSeek:
      return AllOf(kDeepSeekTags);
    case ToolFormat::kDsml:
      return {"｜DSML｜"};
  }
  return {};
}

}  // namespace

void ReadReasoningFormat(absl::string_view prompt, OutputStyle& style) {
  const absl::string_view end = absl::StripTrailingAsciiWhitespace(prompt);
  if (absl::EndsWith(end, "<|start|>assistant")) {
    style.reasoning = ReasoningFormat::kChannels;
  } else if (absl::EndsWith(end, "<|CHATBOT_TOKEN|>") ||
             absl::EndsWith(end, "<|CHATBOT_TOKEN|><|START_THINKING|>")) {
    style.reasoning = ReasoningFormat::kThinkingTokens;
  } else if (absl::StrContains(prompt, "<|turn>model\n")) {
    style.reasoning = ReasoningFormat::kThoughtChannel;
  } else if (absl::StrContains(prompt, "<response></response>")) {
    style.reasoning = ReasoningFormat::kThinkAndResponse;
  } else if (absl::StrContains(prompt, "'Here is my thought process:'")) {
    style.reasoning = ReasoningFormat::kThoughtProcess;
  }
  const absl::string_view begin = TagsOf(style.reasoning).begin;
  style.begins_in_thought = !begin.empty() && absl::EndsWith(end, begin);
}

ReasoningTags TagsOf(ReasoningFormat format) {
  switch (format) {
    case ReasoningFormat::kThinkTags:
      break;
    case ReasoningFormat::kThinkAndResponse:
      return {"<think>", "</think>", "<response>", "</response>"};
    case ReasoningFormat::kThoughtProcess:
      return {"Here is my thought process:", "Here is my response:", "", ""};
    case ReasoningFormat::kThinkingTokens:
      return {"<|START_THINKING|>", "<|END_THINKING|>", "<|START_RESPONSE|>", "<|END_RESPONSE|>"};
    case ReasoningFormat::kThoughtChannel:
      return {"<|channel>thought", "<channel|>", "", "", /*is_channel=*/true};
    case ReasoningFormat::kChannels:
      return {"", "", "", ""};
  }
  return {"<think>", "</think>", "", ""};
}

std::vector<std::string> SpecialTokensOf(const OutputStyle& style) {
  if (style.reasoning == ReasoningFormat::kChannels) return HarmonyTags();
  std::vector<std::string> tokens = SpecialTokensOf(style.tool_format);
  switch (style.reasoning) {
    case ReasoningFormat::kThinkTags:
    case ReasoningFormat::kThinkAndResponse:
      Append(tokens, {"<think>", "</think>"});
      break;
    case ReasoningFormat::kThinkingTokens: {
      const ReasoningTags tags = TagsOf(style.reasoning);
      Append(tokens, {tags.begin, tags.end, tags.text_begin, tags.text_end});
      break;
    }
    case ReasoningFormat::kThoughtChannel:
      Append(tokens, {"<|channel>", "<channel|>"});
      break;
    case ReasoningFormat::kThoughtProcess:
    case ReasoningFormat::kChannels:
      break;
  }
  return tokens;
}

}  // namespace sluice::gateway
