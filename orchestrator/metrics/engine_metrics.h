// The state of engine, scheduler, KV cache and replica, read when it is scraped. Thread-safe.
#pragma once

#include <prometheus/collectable.h>

#include <functional>
#include <vector>

#include "orchestrator/engine/engine.h"

namespace sluice {

class EngineMetrics final : public prometheus::Collectable {
 public:
  // `look` is called at every scrape. With `vllm_names`, the figures that routers and dashboards
  // made for vLLM read are there under its names as well.
  EngineMetrics(std::function<EngineStatus()> look, bool vllm_names);

  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const std::function<EngineStatus()> look_;
  const bool vllm_names_;
};

}  // namespace sluice
