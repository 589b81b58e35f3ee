#include "services/gateway/openai/completion_request.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/gateway/json/object_reader.h"

namespace sluice::gateway::openai {
namespace {

using nlohmann::json;

constexpr size_t kMaxPrompts = 128;
constexpr int32_t kDefaultMaxTokens = 16;  // OpenAI's

bool IsTokenId(const json& value) {
  return value.is_number_integer() && value >= std::numeric_limits<int32_t>::min() &&
         value <= kMaxInt32;
}

std::optional<Prompt> OnePrompt(const json& value) {
  if (value.is_string()) return Prompt(value.get<std::string>());
  if (!value.is_array() || value.empty()) return std::nullopt;
  std::vector<int32_t> ids;
  for (const json& id : value) {
    if (!IsTokenId(id)) return std::nullopt;
    ids.push_back(id.get<int32_t>());
  }
  return Prompt(std::move(ids));
}

// A text, token ids, or an array of texts or of arrays of token ids.
std::vector<Prompt> ReadPrompts(ObjectReader& reader) {
  const json* value = reader.Any("prompt");
  if (value == nullptr) {
    reader.Fail("prompt", "missing_required_parameter", "Missing required parameter: 'prompt'.");
    return {};
  }
  if (std::optional<Prompt> one = OnePrompt(*value)) return {*std::move(one)};
  std::vector<Prompt> prompts;
  const bool several = value->is_array() && !value->empty() && value->size() <= kMaxPrompts;
  for (const json& item : several ? *value : json::array()) {
    std::optional<Prompt> prompt = OnePrompt(item);
    if (!prompt.has_value()) break;
    prompts.push_back(*std::move(prompt));
  }
  if (several && prompts.size() == value->size()) return prompts;
  reader.Fail(
      "prompt", "invalid_type",
      absl::StrCat("'prompt' must be a string, an array of token ids, or an array of up to ",
                   kMaxPrompts, " of either."));
  return {};
}

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
  request.prompts = ReadPrompts(reader);
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
  ReadMaxTokens(reader, request);
  if (const auto suffix = reader.String("suffix"); suffix.has_value() && !suffix->empty()) {
    reader.Refuse({"suffix"}, "the model can't be asked to fill in a middle");
  }
  if (absl::Status status = reader.Finish(); !status.ok()) return status;
  return request;
}

}  // namespace sluice::gateway::openai
