// A body of POST /v1/chat/completions as a value.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "services/gateway/json/object_reader.h"
#include "services/gateway/openai/generation_parameters.h"
#include "services/gateway/tool_calls/tool_choice.h"
#include "sluice/v1/generation.pb.h"

namespace sluice::gateway::openai {

struct ChatRequest {
  GenerationParameters parameters;
  bool logprobs = false;
  ToolChoice tools;
  std::string max_tokens_name = "max_tokens";  // or max_completion_tokens, as it was sent
  std::string prediction;        // what the answer is expected to be; empty where nothing is said
  v1::GenerateRequest generate;  // complete but for what keeps the choice of tools
};

// `text` is what `body` was parsed from. INVALID_ARGUMENT with the payloads of
// json/object_reader.h.
absl::StatusOr<ChatRequest> ReadChatRequest(const nlohmann::json& body, absl::string_view text);

// What the chat template is to see: messages, tools, variables, whether the assistant's turn begins
// or the last message goes on. Faults go to the reader. `text` as above.
ToolChoice ReadChat(ObjectReader& reader, absl::string_view text, v1::Chat& chat);

// What messages were made of.
struct MessageSource {
  // Of the array, from which objects keep their order and numbers their spelling; may be empty
  // where no arguments are objects.
  absl::string_view text;
  // By message, what errors call it; "messages[i]" where there are none.
  absl::Span<const std::string> paths;
};

// The conversation in `messages` as the chat template is to see it: contents as one text, arguments
// of tool calls as objects. INVALID_ARGUMENT naming the message.
absl::Status ReadMessages(const nlohmann::json& messages, const MessageSource& source,
                          v1::Chat& chat);

}  // namespace sluice::gateway::openai
