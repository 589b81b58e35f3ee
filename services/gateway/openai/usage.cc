#include "services/gateway/openai/usage.h"

namespace sluice::gateway::openai {

using nlohmann::json;

json Usage(const std::vector<v1::Finished>& finished, int64_t num_reasoning_tokens) {
  int64_t prompt = 0;
  int64_t generated = 0;
  int64_t cached = 0;
  int64_t drafted = 0;
  int64_t accepted = 0;
  for (const v1::Finished& end : finished) {
    prompt += end.usage().num_prompt_tokens();
    generated += end.usage().num_generated_tokens();
    cached += end.usage().num_cached_prompt_tokens();
    accepted += end.usage().num_accepted_draft_tokens();
    drafted += end.usage().num_drafted_tokens();
  }
  return {{"prompt_tokens", prompt},
          {"completion_tokens", generated},
          {"total_tokens", prompt + generated},
          {"prompt_tokens_details", {{"cached_tokens", cached}}},
          {"completion_tokens_details",
           {{"reasoning_tokens", num_reasoning_tokens},
            {"accepted_prediction_tokens", accepted},
            {"rejected_prediction_tokens", drafted - accepted}}}};
}

void SetFinish(json& choice, const v1::FinishedSequence& end) {
  choice["finish_reason"] = end.reason() == v1::FINISH_REASON_LENGTH ? "length" : "stop";
  choice["stop_reason"] = nullptr;
  if (end.reason() == v1::FINISH_REASON_STOP_STRING) {
    choice["stop_reason"] = end.stop_string();
  } else if (end.has_stop_token_id()) {
    choice["stop_reason"] = end.stop_token_id();
  }
  if (!end.has_score()) return;
  choice["score"] = end.score();
  choice["cumulative_logprob"] = end.sum_logprob();
}

}  // namespace sluice::gateway::openai
