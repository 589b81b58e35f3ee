// Proposes what the caller expects the sequence to be: place by place, and where several tokens came
// otherwise, from where the expected text has what came last. So a text with a part left out or put in
// is found again behind it.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "orchestrator/drafts/drafter.h"
#include "orchestrator/drafts/ngram_index.h"

namespace sluice {

class ExpectedDrafter final : public Drafter {
 public:
  // `expected` follow the first `num_prompt` tokens.
  ExpectedDrafter(int32_t num_prompt, std::shared_ptr<const std::vector<TokenId>> expected)
      : num_prompt_(num_prompt), expected_(std::move(expected)) {}

  void Learn(absl::Span<const TokenId>) override { index_.Learn(*expected_); }
  void Propose(absl::Span<const TokenId> tokens, int32_t most,
               std::vector<DraftToken>& draft) override;

 private:
  // Whether the last tokens are the expected ones: one wrong token does not say that those behind it
  // will be.
  bool IsInPlace(absl::Span<const TokenId> generated) const;

  const size_t num_prompt_;
  const std::shared_ptr<const std::vector<TokenId>> expected_;
  NgramIndex index_;     // of expected_
  ptrdiff_t ahead_ = 0;  // how much later a token stands in expected_ than in the sequence
};

}  // namespace sluice
