#include "orchestrator/metrics/gen_ai_metrics.h"

#include <utility>

#include "orchestrator/metrics/histograms.h"

namespace sluice {
namespace {

// The boundaries that the conventions advise.
const Buckets& DurationBuckets() {
  static const auto& buckets = *new Buckets{0.01, 0.02, 0.04, 0.08,  0.16,  0.32,  0.64,
                                            1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92};
  return buckets;
}

const Buckets& FirstTokenBuckets() {
  static const auto& buckets = *new Buckets{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,
                                            0.25,  0.5,   0.75, 1,    2.5,  5,    7.5,  10};
  return buckets;
}

const Buckets& PerTokenBuckets() {
  static const auto& buckets =
      *new Buckets{0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5};
  return buckets;
}

prometheus::Family<prometheus::Histogram>& FamilyIn(prometheus::Registry& registry,
                                                    const char* name, const char* help) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry);
}

}  // namespace

GenAiMetrics::GenAiMetrics(prometheus::Registry& registry, std::string model)
    : model_(std::move(model)),
      duration_(FamilyIn(registry, "gen_ai_server_request_duration_seconds",
                         "gen_ai.server.request.duration: from the engine's taking a request to "
                         "its end.")),
      first_token_(FamilyIn(registry, "gen_ai_server_time_to_first_token_seconds",
                            "gen_ai.server.time_to_first_token of requests that succeeded.")),
      per_token_(FamilyIn(registry, "gen_ai_server_time_per_output_token_seconds",
                          "gen_ai.server.time_per_output_token: time per token after the first, of "
                          "requests that succeeded.")) {}

std::map<std::string, std::string> GenAiMetrics::LabelsOf(const Request& request) const {
  return {{"gen_ai_operation_name", request.operation},
          {"gen_ai_provider_name", "sluice"},
          {"gen_ai_request_model", model_}};
}

void GenAiMetrics::Observe(const Request& request) {
  std::map<std::string, std::string> labels = LabelsOf(request);
  const bool failed = !request.error_type.empty();
  if (!failed && request.first_token.has_value()) {
    first_token_.Add(labels, FirstTokenBuckets())
        .Observe(absl::ToDoubleSeconds(*request.first_token));
    if (request.num_generated_tokens > 1) {
      const absl::Duration rest = request.duration - *request.first_token;
      per_token_.Add(labels, PerTokenBuckets())
          .Observe(absl::ToDoubleSeconds(rest) /
                   static_cast<double>(request.num_generated_tokens - 1));
    }
  }
  if (failed) labels["error_type"] = request.error_type;
  duration_.Add(labels, DurationBuckets()).Observe(absl::ToDoubleSeconds(request.duration));
}

}  // namespace sluice
