#include "orchestrator/capacity/simulated_replica.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "orchestrator/capacity/trace.h"

namespace sluice {

SimulatedReplica::SimulatedReplica(const StepCosts* costs, const KvGeometry& geometry)
    : costs_(costs),
      geometry_(geometry),
      processes_(std::make_shared<const std::vector<ReplicaProcess>>()),
      free_(static_cast<size_t>(costs->pp)) {
  topology_.shards.assign(static_cast<size_t>(costs->pp),
                          std::vector<std::string>(static_cast<size_t>(costs->tp), "simulated"));
  events_.emplace_back(ReplicaReady{.epoch = epoch_, .geometry = geometry_});
}

void SimulatedReplica::Advance(SteadyTime now) {
  now_ = now;
  if (!failure_.ok()) {
    sent_.clear();
    events_.emplace_back(ReplicaLost{std::exchange(failure_, absl::OkStatus())});
    events_.emplace_back(ReplicaReady{.epoch = ++epoch_, .geometry = geometry_});
  }
  while (!sent_.empty() && sent_.front().end <= now) {
    events_.emplace_back(std::move(sent_.front().executed));
    sent_.pop_front();
  }
}

SteadyTime SimulatedReplica::NextWake() const {
  return sent_.empty() ? SteadyTime::InfiniteFuture() : sent_.front().end;
}

SteadyTime SimulatedReplica::TokensKnown(const Step& step) const {
  StepId latest = 0;
  for (const Segment& segment : step.segments) {
    if (segment.chosen_by.has_value()) latest = std::max(latest, segment.chosen_by->step);
  }
  for (auto sent = sent_.rbegin(); sent != sent_.rend(); ++sent) {
    if (sent->executed.step <= latest) return sent->end;
  }
  return now_;
}

void SimulatedReplica::Execute(const Step& step, absl::Span<const RowRequest> rows) {
  const double seconds = costs_->SecondsOf(LoadOfStep(step)) / static_cast<double>(free_.size());
  const absl::Duration of_stage = absl::Seconds(seconds);
  SteadyTime end = std::max(now_, TokensKnown(step));
  for (SteadyTime& free : free_) free = end = std::max(end, free) + of_stage;
  busy_seconds_ += seconds;
  ++num_steps_;
  num_segments_ += std::ssize(step.segments);

  SentStep& sent = sent_.emplace_back();
  sent.end = end;
  sent.executed.step = step.id;
  sent.executed.rows.resize(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto* const* sampling = std::get_if<const SamplingOptions*>(&rows[i].task);
    if (sampling == nullptr) continue;
    const int32_t position = rows[i].position - rows[i].num_prompt_tokens;
    sent.executed.rows[i].token = NewTokenOf((*sampling)->seed, position);
  }
}

}  // namespace sluice
