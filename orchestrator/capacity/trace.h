// A load as a list of requests: when each arrives, how many tokens its prompt has and how many it
// writes, and which prompts begin alike. Plain values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "orchestrator/kv_cache/types.h"

namespace sluice {

// Prompt and new tokens of one request are limited to this.
inline constexpr int32_t kMostTracedTokens = 1 << 24;

// A run of prompt tokens that is a function of `id` alone: runs of one id begin with the same
// tokens, runs of unlike ids do not.
struct TokenRun {
  uint32_t id = 0;
  int32_t length = 0;  // tokens, >= 1
};

struct TracedRequest {
  double arrival = 0;         // seconds since the trace begins, >= 0
  int32_t prompt_tokens = 1;  // 1 to kMostTracedTokens
  int32_t new_tokens = 1;     // 1 to kMostTracedTokens
  // The prompt begins with these runs of Trace::runs, which have at most prompt_tokens tokens
  // together. What follows them is the request's own.
  uint32_t first_run = 0;
  uint32_t num_runs = 0;
  uint32_t tenant = 0;  // in Trace::tenants
};

struct Trace {
  std::vector<TracedRequest> requests;  // by arrival
  std::vector<TokenRun> runs;
  std::vector<std::string> tenants = {""};
  int64_t num_skipped = 0;  // requests of the source that generated nothing

  // Of the last request; 0 where there is none.
  double seconds() const { return requests.empty() ? 0 : requests.back().arrival; }
};

// The prompt of request `index`.
std::vector<TokenId> PromptOf(const Trace& trace, size_t index);

// Token `position` of the text that request `index` writes: shared with no other request.
TokenId NewTokenOf(uint64_t index, int32_t position);

}  // namespace sluice
