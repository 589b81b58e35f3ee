#include "orchestrator/drafts/chances.h"

namespace sluice {

Chances::Chances() {
  const auto set = [this](DraftKind kind, double chance) {
    chances_[static_cast<size_t>(kind)] = chance;
  };
  set(DraftKind::kForced, 1);
  set(DraftKind::kExpected, 0.8);
  set(DraftKind::kSpelled, 0.8);
  set(DraftKind::kSpelledEnd, 0.5);
  set(DraftKind::kAfter2, 0.3);
  set(DraftKind::kAfter3, 0.5);
  set(DraftKind::kAfter4, 0.6);
  set(DraftKind::kAfter6, 0.7);
  set(DraftKind::kAfter10, 0.8);
  set(DraftKind::kSharedAfter3, 0.3);
  set(DraftKind::kSharedAfter4, 0.4);
  set(DraftKind::kSharedAfter6, 0.5);
  set(DraftKind::kSharedAfter10, 0.7);
  set(DraftKind::kModelSure, 0.9);
  set(DraftKind::kModelLikely, 0.7);
  set(DraftKind::kModelUnsure, 0.5);
  set(DraftKind::kModelGuess, 0.3);
  set(DraftKind::kModelAny, 0.7);
}

void Chances::Count(DraftKind kind, bool right, double weight) {
  if (kind == DraftKind::kForced) return;
  double& chance = chances_[static_cast<size_t>(kind)];
  chance += weight * ((right ? 1 : 0) - chance);
}

}  // namespace sluice
