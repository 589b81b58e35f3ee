#include "services/gateway/openai/completion_request.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/gateway/json/object_reader.h"

namespace sluice::gateway::openai {
namespace {

using nlohmann::json;

constexpr int32_t kDefaultMaxTokens = 16;  // OpenAI's

void ReadMaxTokens(ObjectReader& reader, CompletionRequest& request) {
  const auto max_tokens = reader.Integer("max_tokens", 0, kMaxInt32);
  request.generates = max_tokens != 0;
  if (request.generates) {
    request.generate.set_max_tokens(static_cast<int32_t>(max_tokens.value_or(kDefaultMaxTokens)));
  } else if (!request.echo) {
    reader.Fail("max_tokens", "invalid_value", "'max_tokens' is 0, which needs 'echo'.");
  }
}

}  // namespace

absl::StatusOr<CompletionRequest> ReadCompletionRequest(const json& body, absl::string_view text) {
  ObjectReader reader(body);
  CompletionRequest request;
  request.parameters = ReadGenerationParameters(reader, text, request.generate);
  request.prompts = ReadPrompts(reader, "prompt", kMostPrompts);
  request.echo = reader.Bool("echo").value_or(false);
  if (const auto logprobs = reader.Integer("logprobs", 0, 20)) {
    request.logprobs = static_cast<int32_t>(*logprobs);
    request.generate.set_logprobs(*request.logprobs);
  }
  if (const auto count = reader.Integer("truncate_prompt_tokens", -1, kMaxInt32)) {
    if (*count == 0) {
      reader.Fail("truncate_prompt_tokens", "invalid_value",
                  "Invalid 'truncate_prompt_tokens': 0; accepted: -1, or 1 and more.");
    }
    request.truncate_prompt_tokens = static_cast<int32_t>(*count);
  }
  request.add_special_tokens = reader.Bool("add_special_tokens").value_or(true);
  ReadMaxTokens(reader, request);
  if (const auto suffix = reader.String("suffix"); suffix.has_value() && !suffix->empty()) {
    reader.Refuse({"suffix"}, "the model can't be asked to fill in a middle");
  }
  if (absl::Status status = reader.Finish(); !status.ok()) return status;
  return request;
}

}  // namespace sluice::gateway::openai
