// How often tokens of each kind have turned out right, given that those before them were: what was
// proposed is held against what came, whether it was computed as a draft or not. So a sequence that
// is not drafted on shows all the same whether it would be worth it.
#pragma once

#include <array>

#include "orchestrator/drafts/drafter.h"

namespace sluice {

class Chances {
 public:
  // What is expected of sequences of which nothing is known.
  Chances();

  double Of(DraftKind kind) const { return chances_[static_cast<size_t>(kind)]; }
  // `weight` in (0, 1]: of this one in the mean.
  void Count(DraftKind kind, bool right, double weight);

 private:
  std::array<double, kNumDraftKinds> chances_;
};

}  // namespace sluice
