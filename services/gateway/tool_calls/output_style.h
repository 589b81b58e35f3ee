// Format of a model's output: tool calls, reasoning and text. There is no standard; the model's
// chat template defines it.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "services/gateway/tool_calls/format.h"

namespace sluice::gateway {

enum class ReasoningFormat {
  kThinkTags,         // <think>..</think> before the text: DeepSeek, GLM, Kimi, Qwen, SmolLM3
  kThinkAndResponse,  // <think>..</think><response>..</response>: Granite 3.3
  kThoughtProcess,    // Here is my thought process: .. Here is my response: ..: Granite 3.2
  kThinkingTokens,    // <|START_THINKING|>..<|END_THINKING|><|START_RESPONSE|>..: Command R7B, A
  kThoughtChannel,    // <|channel>thought, a line break, ..<channel|>: Gemma 4
  kChannels,          // <|channel|>analysis<|message|>..<|end|>: gpt-oss (harmony)
};

constexpr int kNumReasoningFormats = static_cast<int>(ReasoningFormat::kChannels) + 1;

struct OutputStyle {
  ToolFormat tool_format = ToolFormat::kNone;
  ReasoningFormat reasoning = ReasoningFormat::kThinkTags;
  bool begins_in_thought = false;  // prompts end with the tag that begins reasoning
};

// Sets what the prompt of a conversation, up to where the assistant begins, shows of reasoning.
void ReadReasoningFormat(absl::string_view prompt, OutputStyle& style);

// What reasoning is enclosed in, and the text behind it. Empty ones are not written; all are for
// kChannels.
struct ReasoningTags {
  const char* begin;
  const char* end;
  const char* text_begin;
  const char* text_end;
  // A line break behind `begin` belongs to it, there may be more reasoning anywhere in the text, and
  // `end` without a beginning means nothing.
  bool is_channel = false;
};
ReasoningTags TagsOf(ReasoningFormat format);

// The tags of a style that may be special tokens, which texts leave out unless they are asked for.
std::vector<std::string> SpecialTokensOf(const OutputStyle& style);

}  // namespace sluice::gateway
