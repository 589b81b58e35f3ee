// Finish reasons and usage of sequences in OpenAI's format.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "sluice/v1/generation.pb.h"

namespace sluice::gateway::openai {

// {"prompt_tokens", "completion_tokens", "total_tokens", and details of the first two} over all
// prompts.
nlohmann::json Usage(const std::vector<v1::Finished>& finished, int64_t num_reasoning_tokens);

// Sets "finish_reason" and vLLM's "stop_reason": the string or token that stopped it, or null.
void SetFinish(nlohmann::json& choice, const v1::FinishedSequence& end);

}  // namespace sluice::gateway::openai
