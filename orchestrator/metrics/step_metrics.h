// Metrics of steps (duration, size) and of queueing delay. Thread-safe.
#pragma once

#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include "orchestrator/engine/observer.h"

namespace sluice {

class StepMetrics final : public EngineObserver {
 public:
  // Registers its families with `registry`, which must outlive it.
  explicit StepMetrics(prometheus::Registry& registry);

  void OnStep(absl::Duration time, int num_positions, int num_sequences) override;
  void OnRequestEnded(const RequestLedger& ended) override;

 private:
  prometheus::Histogram& duration_;
  prometheus::Histogram& positions_;
  prometheus::Histogram& sequences_;
  prometheus::Histogram& queue_time_;
};

}  // namespace sluice
