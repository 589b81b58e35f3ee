#include "orchestrator/metrics/step_metrics.h"

#include "orchestrator/metrics/histograms.h"

namespace sluice {

StepMetrics::StepMetrics(prometheus::Registry& registry)
    : duration_(HistogramOf(registry, "sluice_step_duration_seconds",
                            "From a step's sending to its results.", SecondsBuckets())),
      positions_(HistogramOf(registry, "sluice_step_positions",
                             "Positions computed in a step, over all sequences.", TokensBuckets())),
      sequences_(HistogramOf(registry, "sluice_step_sequences", "Sequences in a step.",
                             SequencesBuckets())),
      queue_time_(HistogramOf(registry, "sluice_queue_time_seconds",
                              "From a request's arrival until some of it was first computed.",
                              SecondsBuckets())) {}

void StepMetrics::OnStep(absl::Duration time, int num_positions, int num_sequences) {
  duration_.Observe(absl::ToDoubleSeconds(time));
  positions_.Observe(num_positions);
  sequences_.Observe(num_sequences);
}

// One that never had its turn waited until its end.
void StepMetrics::OnRequestEnded(const RequestLedger& ended) {
  const RequestTimes& times = ended.times;
  const std::optional<SteadyTime> until = times.started.has_value() ? times.started : times.ended;
  if (!times.arrived.has_value() || !until.has_value()) return;
  queue_time_.Observe(absl::ToDoubleSeconds(*until - *times.arrived));
}

}  // namespace sluice
