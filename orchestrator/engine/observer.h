// Who measures what the engine does. Called on the engine's loop; must not block.
#pragma once

#include "absl/time/time.h"
#include "orchestrator/engine/ledger.h"

namespace sluice {

class EngineObserver {
 public:
  virtual ~EngineObserver() = default;

  // A step was executed: from its sending to its results.
  virtual void OnStep(absl::Duration time, int num_positions, int num_sequences) = 0;
  virtual void OnRequestEnded(const RequestLedger& ended) = 0;
};

}  // namespace sluice
