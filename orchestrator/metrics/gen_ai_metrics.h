// The gen_ai.server.* metrics of OpenTelemetry's semantic conventions, by the names that Prometheus
// gives them: dots become underscores and the unit is appended. Thread-safe.
#pragma once

#include <prometheus/family.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/time/time.h"

namespace sluice {

class GenAiMetrics {
 public:
  // A request that has ended.
  struct Request {
    std::string operation;                      // gen_ai.operation.name
    std::optional<absl::Duration> first_token;  // from its beginning to its first token
    absl::Duration duration;                    // to its end
    int64_t num_generated_tokens = 0;
    std::string error_type;  // of one that failed; few values
  };

  // Registers its families with `registry`, which must outlive it. `model` is the one that is served.
  GenAiMetrics(prometheus::Registry& registry, std::string model);

  // As the conventions say, times of tokens are measured of requests that succeeded, the time per
  // token after the first.
  void Observe(const Request& request);

 private:
  std::map<std::string, std::string> LabelsOf(const Request& request) const;

  const std::string model_;
  prometheus::Family<prometheus::Histogram>& duration_;
  prometheus::Family<prometheus::Histogram>& first_token_;
  prometheus::Family<prometheus::Histogram>& per_token_;
};

}  // namespace sluice
