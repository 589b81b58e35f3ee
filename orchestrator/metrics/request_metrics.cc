#include "orchestrator/metrics/request_metrics.h"

#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "orchestrator/metrics/histograms.h"

namespace sluice {
namespace {

// "ok", "resource_exhausted": one of seventeen, whatever clients do.
std::string OutcomeOf(const absl::Status& status) {
  return absl::AsciiStrToLower(absl::StatusCodeToString(status.code()));
}

}  // namespace

class RequestMetrics::Sink final : public RequestSink {
 public:
  Sink(std::shared_ptr<RequestMetrics> metrics, std::shared_ptr<RequestSink> next,
       std::string tenant_class, std::string operation)
      : metrics_(std::move(metrics)),
        next_(std::move(next)),
        tenant_class_(std::move(tenant_class)),
        operation_(std::move(operation)),
        began_(metrics_->clock_()) {
    metrics_->in_progress_.Increment();
  }
  ~Sink() override {
    if (!ended_) End("cancelled");
  }

  void OnChunk(ChunkEvent chunk) override {
    if (!chunk.tokens.empty()) {
      const absl::Time now = metrics_->clock_();
      const bool first = num_tokens_ == 0;
      const double seconds = absl::ToDoubleSeconds(now - (first ? began_ : last_token_));
      (first ? metrics_->first_token_ : metrics_->between_tokens_).Observe(seconds);
      if (first) first_token_ = now - began_;
      last_token_ = now;
      num_tokens_ += static_cast<int64_t>(chunk.tokens.size());
    }
    next_->OnChunk(std::move(chunk));
  }

  void OnFinished(RequestEnd end) override {
    metrics_->prompt_tokens_.Observe(end.num_prompt_tokens);
    metrics_->generated_tokens_.Observe(static_cast<double>(num_tokens_));
    End("ok");
    next_->OnFinished(std::move(end));
  }

  void OnFailed(absl::Status status) override {
    End(OutcomeOf(status));
    next_->OnFailed(std::move(status));
  }

 private:
  void End(const std::string& outcome) {
    ended_ = true;
    metrics_->in_progress_.Decrement();
    const absl::Duration duration = metrics_->clock_() - began_;
    metrics_->duration_.Observe(absl::ToDoubleSeconds(duration));
    metrics_->gen_ai_.Observe({.operation = operation_,
                               .first_token = first_token_,
                               .duration = duration,
                               .num_generated_tokens = num_tokens_,
                               .error_type = outcome == "ok" ? "" : outcome});
    metrics_->CountEnd(outcome, tenant_class_);
  }

  const std::shared_ptr<RequestMetrics> metrics_;
  const std::shared_ptr<RequestSink> next_;
  const std::string tenant_class_;
  const std::string operation_;
  const absl::Time began_;
  // Touched by the engine's thread alone, as every sink is.
  std::optional<absl::Duration> first_token_;
  absl::Time last_token_;
  int64_t num_tokens_ = 0;
  bool ended_ = false;
};

RequestMetrics::RequestMetrics(prometheus::Registry& registry, Clock clock, std::string model)
    : clock_(std::move(clock)),
      requests_(prometheus::BuildCounter()
                    .Name("sluice_requests_total")
                    .Help("Requests that ended, by the status they ended with and the class of "
                          "their tenant.")
                    .Register(registry)),
      in_progress_(prometheus::BuildGauge()
                       .Name("sluice_requests_in_progress")
                       .Help("Requests that the engine has.")
                       .Register(registry)
                       .Add({})),
      first_token_(HistogramOf(registry, "sluice_time_to_first_token_seconds",
                               "From the engine's taking a request to its first token.",
                               SecondsBuckets())),
      between_tokens_(HistogramOf(registry, "sluice_time_between_tokens_seconds",
                                  "Between the events of a request that bring tokens.",
                                  SecondsBuckets())),
      duration_(HistogramOf(registry, "sluice_request_duration_seconds",
                            "From the engine's taking a request to its end.", SecondsBuckets())),
      prompt_tokens_(HistogramOf(registry, "sluice_request_prompt_tokens",
                                 "Tokens of the prompts of finished requests.", TokensBuckets())),
      generated_tokens_(HistogramOf(registry, "sluice_request_generated_tokens",
                                    "Tokens generated for finished requests.", TokensBuckets())),
      gen_ai_(registry, std::move(model)) {}

std::shared_ptr<RequestMetrics> RequestMetrics::Make(prometheus::Registry& registry, Clock clock,
                                                     std::string model) {
  return std::shared_ptr<RequestMetrics>(
      new RequestMetrics(registry, std::move(clock), std::move(model)));
}

std::shared_ptr<RequestSink> RequestMetrics::Measure(std::shared_ptr<RequestSink> next,
                                                     std::string tenant_class,
                                                     std::string operation) {
  return std::make_shared<Sink>(shared_from_this(), std::move(next), std::move(tenant_class),
                                std::move(operation));
}

void RequestMetrics::CountRefused(const absl::Status& status, const std::string& tenant_class) {
  CountEnd(OutcomeOf(status), tenant_class);
}

void RequestMetrics::CountEnd(const std::string& outcome, const std::string& tenant_class) {
  requests_.Add({{"outcome", outcome}, {"tenant_class", tenant_class}}).Increment();
}

}  // namespace sluice
