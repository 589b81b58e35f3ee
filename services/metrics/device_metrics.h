// The memory of the device that a process computes on, where the device has its own. Thread-safe.
#pragma once

#include <prometheus/collectable.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/backend.h"

namespace sluice {

class DeviceMetrics final : public prometheus::Collectable {
 public:
  // `device` is its label, such as "cuda sm_9x/wgmma v1"; `memory` is asked at every scrape, from any
  // thread: nullopt where the device says nothing.
  DeviceMetrics(std::string device, std::function<std::optional<DeviceMemory>()> memory);

  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const std::string device_;
  const std::function<std::optional<DeviceMemory>()> memory_;
};

// Those of the device that `backend` computes on, which it borrows; none where its memory is the
// host's.
std::vector<std::shared_ptr<prometheus::Collectable>> MetricsOfDevice(const Backend& backend);

}  // namespace sluice
