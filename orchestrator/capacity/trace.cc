#include "orchestrator/capacity/trace.h"

#include <algorithm>

namespace sluice {
namespace {

constexpr uint32_t kIdMask = 0x7fffffff;
// Of prompts' own tokens and new ones, apart from those of runs.
constexpr uint64_t kOwn = uint64_t{1} << 40;
constexpr uint64_t kNew = uint64_t{1} << 41;

// SplitMix64's output function.
uint64_t Mixed(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

TokenId TokenAt(uint64_t mixed, uint32_t position) {
  const auto stride = static_cast<uint32_t>(mixed >> 32) | 1;
  return static_cast<TokenId>((static_cast<uint32_t>(mixed) + position * stride) & kIdMask);
}

void AppendTokens(uint64_t stream, int32_t count, std::vector<TokenId>& tokens) {
  const uint64_t mixed = Mixed(stream);
  const size_t begin = tokens.size();
  tokens.resize(begin + static_cast<size_t>(count));
  for (int32_t i = 0; i < count; ++i) {
    tokens[begin + static_cast<size_t>(i)] = TokenAt(mixed, static_cast<uint32_t>(i));
  }
}

}  // namespace

std::vector<TokenId> PromptOf(const Trace& trace, size_t index) {
  const TracedRequest& request = trace.requests[index];
  std::vector<TokenId> tokens;
  tokens.reserve(static_cast<size_t>(request.prompt_tokens));
  for (uint32_t i = 0; i < request.num_runs; ++i) {
    const TokenRun& run = trace.runs[request.first_run + i];
    AppendTokens(run.id, run.length, tokens);
  }
  AppendTokens(kOwn + index, request.prompt_tokens - static_cast<int32_t>(tokens.size()), tokens);
  return tokens;
}

TokenId NewTokenOf(uint64_t index, int32_t position) {
  return TokenAt(Mixed(kNew + index), static_cast<uint32_t>(position));
}

}  // namespace sluice
