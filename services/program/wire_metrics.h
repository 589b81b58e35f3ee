// Sent bytes by message type, as Prometheus metrics. Thread-safe.
#pragma once

#include <prometheus/collectable.h>

#include <vector>

namespace sluice {

class WireMetrics final : public prometheus::Collectable {
 public:
  std::vector<prometheus::MetricFamily> Collect() const override;
};

}  // namespace sluice
