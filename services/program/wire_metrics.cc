#include "services/program/wire_metrics.h"

#include "services/metrics/families.h"
#include "services/streams/sent_bytes.h"

namespace sluice {

std::vector<prometheus::MetricFamily> WireMetrics::Collect() const {
  std::vector<MetricSample> samples;
  for (const SentBytes& sent : AllSentBytes()) {
    samples.push_back({static_cast<double>(sent.bytes), {{"message", sent.message}}});
  }
  return {CounterFamily("sluice_sent_bytes_total",
                        "Bytes of messages that the process's streams have sent, by type.",
                        samples)};
}

}  // namespace sluice
