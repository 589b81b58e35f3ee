#include "services/telemetry/span_metrics.h"

#include "services/metrics/families.h"

namespace sluice {

std::vector<prometheus::MetricFamily> SpanMetrics::Collect() const {
  const SpanCounts counts = counts_();
  return {
      CounterFamily("sluice_spans_exported_total", "Spans that the collector took.",
                    {{static_cast<double>(counts.exported), {}}}),
      CounterFamily("sluice_spans_dropped_total",
                    "Spans that it did not get, by why: too many waited, it could not be "
                    "reached or answered with an error, it refused them.",
                    {{static_cast<double>(counts.dropped_full), {{"reason", "queue_full"}}},
                     {static_cast<double>(counts.dropped_failed), {{"reason", "failed"}}},
                     {static_cast<double>(counts.dropped_rejected), {{"reason", "rejected"}}}})};
}

}  // namespace sluice
