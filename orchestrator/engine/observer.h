// Who measures what the engine does. Called on the engine's loop; must not block.
#pragma once

#include <utility>
#include <vector>

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

// Several that hear the same, in order.
class EngineObservers final : public EngineObserver {
 public:
  // Borrows them.
  explicit EngineObservers(std::vector<EngineObserver*> observers)
      : observers_(std::move(observers)) {}

  void OnStep(absl::Duration time, int num_positions, int num_sequences) override {
    for (EngineObserver* observer : observers_) {
      observer->OnStep(time, num_positions, num_sequences);
    }
  }
  void OnRequestEnded(const RequestLedger& ended) override {
    for (EngineObserver* observer : observers_) observer->OnRequestEnded(ended);
  }

 private:
  const std::vector<EngineObserver*> observers_;
};

}  // namespace sluice
