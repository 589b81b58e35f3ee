#include "services/metrics/device_metrics.h"

#include <utility>

#include "services/metrics/families.h"

namespace sluice {

DeviceMetrics::DeviceMetrics(std::string device,
                             std::function<std::optional<DeviceMemory>()> memory)
    : device_(std::move(device)), memory_(std::move(memory)) {}

std::vector<prometheus::MetricFamily> DeviceMetrics::Collect() const {
  const std::optional<DeviceMemory> use = memory_();
  if (!use.has_value()) return {};
  const MetricLabels labels = {{"device", device_}};
  return {GaugeFamily("sluice_device_memory_bytes", "Memory of the device, all programs' together.",
                      {{static_cast<double>(use->total_bytes), labels}}),
          GaugeFamily("sluice_device_memory_free_bytes", "Its part that nobody uses.",
                      {{static_cast<double>(use->free_bytes), labels}})};
}

std::vector<std::shared_ptr<prometheus::Collectable>> MetricsOfDevice(const Backend& backend) {
  if (!backend.memory().has_value()) return {};
  return {std::make_shared<DeviceMetrics>(std::string(backend.name()),
                                          [&backend] { return backend.memory(); })};
}

}  // namespace sluice
