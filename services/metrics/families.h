// Metrics whose value is known when they are asked for. Pure functions.
#pragma once

#include <prometheus/client_metric.h>
#include <prometheus/metric_family.h>

#include <string>
#include <utility>
#include <vector>

namespace sluice {

using MetricLabels = std::vector<prometheus::ClientMetric::Label>;

struct MetricSample {
  double value = 0;
  MetricLabels labels;
};

inline prometheus::MetricFamily FamilyOf(prometheus::MetricType type, std::string name,
                                         std::string help,
                                         const std::vector<MetricSample>& samples) {
  prometheus::MetricFamily family{std::move(name), std::move(help), type, {}};
  for (const MetricSample& sample : samples) {
    prometheus::ClientMetric metric;
    metric.label = sample.labels;
    if (type == prometheus::MetricType::Counter) {
      metric.counter.value = sample.value;
    } else {
      metric.gauge.value = sample.value;
    }
    family.metric.push_back(std::move(metric));
  }
  return family;
}

inline prometheus::MetricFamily GaugeFamily(std::string name, std::string help,
                                            const std::vector<MetricSample>& samples) {
  return FamilyOf(prometheus::MetricType::Gauge, std::move(name), std::move(help), samples);
}

inline prometheus::MetricFamily CounterFamily(std::string name, std::string help,
                                              const std::vector<MetricSample>& samples) {
  return FamilyOf(prometheus::MetricType::Counter, std::move(name), std::move(help), samples);
}

}  // namespace sluice
