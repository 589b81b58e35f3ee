// Metrics of every process: memory, processor time, threads, files, whether it serves. Thread-safe.
#pragma once

#include <prometheus/collectable.h>

#include <functional>
#include <string>
#include <vector>

namespace sluice {

class ProcessMetrics final : public prometheus::Collectable {
 public:
  // `service` is the program's name; `serving` is asked at every scrape.
  ProcessMetrics(std::string service, std::function<bool()> serving);

  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const std::string service_;
  const std::function<bool()> serving_;
  const double started_seconds_;  // since 1970
};

}  // namespace sluice
