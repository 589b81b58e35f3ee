// Drafts that are right, wrong, or right up to somewhere, as chance has it.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "kernels/check.h"
#include "orchestrator/scheduler/draft_source.h"

namespace sluice {

class RandomDrafts final : public DraftSource {
 public:
  // `future` gives the tokens that a sequence comes to have, as far as they are known.
  RandomDrafts(uint32_t seed, std::function<std::vector<TokenId>(SequenceId)> future)
      : random_(seed), future_(std::move(future)) {}

  void OnTokens(const SequenceSpec& spec, int32_t num_prompt,
                absl::Span<const TokenId> tokens) override {
    std::vector<TokenId>& seen = seen_[spec.id];
    SLUICE_CHECK(spec.max_drafts > 0 && num_prompt < std::ssize(tokens));
    SLUICE_CHECK(seen.size() < tokens.size() &&
                 std::equal(seen.begin(), seen.end(), tokens.begin()));
    seen.assign(tokens.begin(), tokens.end());
  }
  void OnEnd(SequenceId sequence, absl::Span<const TokenId>) override { seen_.erase(sequence); }

  bool AllWait(int32_t) override { return Pick(0, 2) == 0; }
  bool Waits(SequenceId) override { return Pick(0, 2) == 0; }

  void Draft(const DraftRoom& room, absl::Span<DraftCandidate> candidates) override {
    int32_t left = room.tokens;
    for (DraftCandidate& candidate : candidates) {
      const std::vector<TokenId> future = future_(candidate.sequence);
      const int32_t count = Pick(0, std::min(candidate.most, left));
      const int32_t right = Pick(0, count);
      for (int32_t i = 0; i < count; ++i) {
        const size_t at = candidate.tokens.size() + i;
        const TokenId known = at < future.size() ? future[at] : 0;
        candidate.draft.push_back(i < right ? known : Pick(0, 3));
      }
      left -= count;
    }
  }

 private:
  int Pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }

  std::mt19937 random_;
  std::function<std::vector<TokenId>(SequenceId)> future_;
  std::map<SequenceId, std::vector<TokenId>> seen_;
};

}  // namespace sluice
