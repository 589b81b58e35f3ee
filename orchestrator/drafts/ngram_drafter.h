// Proposes what followed the last time that a sequence had the tokens it ends with: prompt lookup
// (Saxena 2023) over all that the sequence has.
#pragma once

#include <vector>

#include "orchestrator/drafts/drafter.h"
#include "orchestrator/drafts/ngram_index.h"

namespace sluice {

class NgramDrafter final : public Drafter {
 public:
  void Learn(absl::Span<const TokenId> tokens) override { index_.Learn(tokens); }
  void Propose(absl::Span<const TokenId> tokens, int32_t most,
               std::vector<DraftToken>& draft) override;

 private:
  NgramIndex index_;
};

}  // namespace sluice
