// What /metrics says of the bytes that this process has sent. Thread-safe.
#pragma once

#include <prometheus/collectable.h>

#include <vector>

namespace sluice {

class WireMetrics final : public prometheus::Collectable {
 public:
  std::vector<prometheus::MetricFamily> Collect() const override;
};

}  // namespace sluice
