// Counters of exported and dropped spans, for Prometheus. Thread-safe.
#pragma once

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <functional>
#include <utility>
#include <vector>

#include "services/telemetry/span_exporter.h"

namespace sluice {

class SpanMetrics final : public prometheus::Collectable {
 public:
  // `counts` is asked at every scrape.
  explicit SpanMetrics(std::function<SpanCounts()> counts) : counts_(std::move(counts)) {}

  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const std::function<SpanCounts()> counts_;
};

}  // namespace sluice
