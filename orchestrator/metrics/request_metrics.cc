#include "orchestrator/metrics/request_metrics.h"

#include <utility>

#include "absl/strings/ascii.h"

namespace sluice {
namespace {

using Buckets = prometheus::Histogram::BucketBoundaries;

// From what a small model on an idle machine takes to what a client still waits for.
const Buckets& Seconds() {
  static const auto& buckets =
      *new Buckets{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
                   1,     2.5,    5,     10,   25,    60,   120, 300,  600};
  return buckets;
}

const Buckets& Tokens() {
  static const auto& buckets = *new Buckets{1,   2,    5,    10,   20,    50,    100,   200,
                                            500, 1000, 2000, 5000, 10000, 20000, 50000, 100000};
  return buckets;
}

prometheus::Histogram& HistogramOf(prometheus::Registry& registry, const char* name,
                                   const char* help, const Buckets& buckets) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add({}, buckets);
}

// "ok", "resource_exhausted": one of seventeen, whatever clients do.
std::string OutcomeOf(const absl::Status& status) {
  return absl::AsciiStrToLower(absl::StatusCodeToString(status.code()));
}

}  // namespace

class RequestMetrics::Sink final : public RequestSink {
 public:
  Sink(std::shared_ptr<RequestMetrics> metrics, std::shared_ptr<RequestSink> next)
      : metrics_(std::move(metrics)), next_(std::move(next)), began_(metrics_->clock_()) {
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
    metrics_->duration_.Observe(absl::ToDoubleSeconds(metrics_->clock_() - began_));
    metrics_->CountEnd(outcome);
  }

  const std::shared_ptr<RequestMetrics> metrics_;
  const std::shared_ptr<RequestSink> next_;
  const absl::Time began_;
  // Touched by the engine's thread alone, as every sink is.
  absl::Time last_token_;
  int64_t num_tokens_ = 0;
  bool ended_ = false;
};

RequestMetrics::RequestMetrics(prometheus::Registry& registry, Clock clock)
    : clock_(std::move(clock)),
      requests_(prometheus::BuildCounter()
                    .Name("sluice_requests_total")
                    .Help("Requests that ended, by the status they ended with.")
                    .Register(registry)),
      in_progress_(prometheus::BuildGauge()
                       .Name("sluice_requests_in_progress")
                       .Help("Requests that the engine has.")
                       .Register(registry)
                       .Add({})),
      first_token_(HistogramOf(registry, "sluice_time_to_first_token_seconds",
                               "From the engine's taking a request to its first token.",
                               Seconds())),
      between_tokens_(HistogramOf(registry, "sluice_time_between_tokens_seconds",
                                  "Between the events of a request that bring tokens.", Seconds())),
      duration_(HistogramOf(registry, "sluice_request_duration_seconds",
                            "From the engine's taking a request to its end.", Seconds())),
      prompt_tokens_(HistogramOf(registry, "sluice_request_prompt_tokens",
                                 "Tokens of the prompts of finished requests.", Tokens())),
      generated_tokens_(HistogramOf(registry, "sluice_request_generated_tokens",
                                    "Tokens generated for finished requests.", Tokens())) {}

std::shared_ptr<RequestMetrics> RequestMetrics::Make(prometheus::Registry& registry, Clock clock) {
  return std::shared_ptr<RequestMetrics>(new RequestMetrics(registry, std::move(clock)));
}

std::shared_ptr<RequestSink> RequestMetrics::Measure(std::shared_ptr<RequestSink> next) {
  return std::make_shared<Sink>(shared_from_this(), std::move(next));
}

void RequestMetrics::CountRefused(const absl::Status& status) { CountEnd(OutcomeOf(status)); }

void RequestMetrics::CountEnd(const std::string& outcome) {
  requests_.Add({{"outcome", outcome}}).Increment();
}

}  // namespace sluice
