// A body of POST /v1/completions as a value.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "services/gateway/openai/generation_parameters.h"
#include "services/gateway/openai/prompts.h"
#include "sluice/v1/generation.pb.h"

namespace sluice::gateway::openai {

struct CompletionRequest {
  GenerationParameters parameters;
  std::vector<Prompt> prompts;      // at least one
  bool echo = false;                // the text begins with the prompt
  std::optional<int32_t> logprobs;  // alternatives per token
  bool generates = true;            // false for max_tokens 0: the prompt alone is looked at
  // Of each prompt only the last so many tokens are taken; -1: as many as the model takes.
  std::optional<int32_t> truncate_prompt_tokens;
  bool add_special_tokens = true;  // to prompts that are texts
  v1::GenerateRequest generate;    // everything but the prompt
};

// `text` is what `body` was parsed from. INVALID_ARGUMENT with the payloads of
// json/object_reader.h.
absl::StatusOr<CompletionRequest> ReadCompletionRequest(const nlohmann::json& body,
                                                        absl::string_view text);

}  // namespace sluice::gateway::openai
