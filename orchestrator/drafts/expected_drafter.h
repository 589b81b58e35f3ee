// Proposes what the caller expects the sequence to be, position by position.
#pragma once

#include <memory>
#include <vector>

#include "orchestrator/drafts/drafter.h"

namespace sluice {

class ExpectedDrafter final : public Drafter {
 public:
  // `expected` follow the first `num_prompt` tokens.
  ExpectedDrafter(int32_t num_prompt, std::shared_ptr<const std::vector<TokenId>> expected)
      : num_prompt_(num_prompt), expected_(std::move(expected)) {}

  void Learn(absl::Span<const TokenId>) override {}
  // A token that came otherwise than expected does not say that those behind it will.
  void Propose(absl::Span<const TokenId> tokens, int32_t most,
               std::vector<DraftToken>& draft) override {
    const size_t first = tokens.size() - num_prompt_;
    for (size_t i = first; i < expected_->size() && i < first + most; ++i) {
      draft.push_back({.token = (*expected_)[i], .kind = DraftKind::kExpected});
    }
  }

 private:
  const size_t num_prompt_;
  const std::shared_ptr<const std::vector<TokenId>> expected_;
};

}  // namespace sluice
