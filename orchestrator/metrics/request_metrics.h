// Metrics of requests (latency, tokens, outcome), measured between the engine and the client's
// stream. Thread-safe; lives as long as any sink that it made.
#pragma once

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "orchestrator/engine/request.h"
#include "orchestrator/metrics/gen_ai_metrics.h"

namespace sluice {

class RequestMetrics : public std::enable_shared_from_this<RequestMetrics> {
 public:
  using Clock = std::function<absl::Time()>;

  // Registers its families with `registry`, which must outlive it.
  // `model` is the name of the one that is served.
  static std::shared_ptr<RequestMetrics> Make(prometheus::Registry& registry, Clock clock,
                                              std::string model);

  // A sink that measures what passes it on to `next`. One that goes away before its last event
  // counts as cancelled. Of tenants' classes, and of operations (gen_ai.operation.name), there must
  // be few.
  std::shared_ptr<RequestSink> Measure(std::shared_ptr<RequestSink> next, std::string tenant_class,
                                       std::string operation);

  // A request that never came as far as the engine.
  void CountRefused(const absl::Status& status, const std::string& tenant_class);

 private:
  class Sink;

  RequestMetrics(prometheus::Registry& registry, Clock clock, std::string model);
  void CountEnd(const std::string& outcome, const std::string& tenant_class);

  const Clock clock_;
  prometheus::Family<prometheus::Counter>& requests_;
  prometheus::Gauge& in_progress_;
  prometheus::Histogram& first_token_;
  prometheus::Histogram& between_tokens_;
  prometheus::Histogram& duration_;
  prometheus::Histogram& prompt_tokens_;
  prometheus::Histogram& generated_tokens_;
  GenAiMetrics gen_ai_;
};

}  // namespace sluice
