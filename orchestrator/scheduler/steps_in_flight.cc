#include "orchestrator/scheduler/steps_in_flight.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace sluice {

void StepsInFlight::Begin(size_t most_segments) {
  PlannedStep& step = steps_.emplace_back();
  step.id = next_id();
  step.segments.reserve(most_segments);
}

void StepsInFlight::Add(SequenceState& sequence, const Segment& segment, const Tokens& drafts) {
  PlannedStep& step = steps_.back();
  PlannedSegment& planned = step.segments.emplace_back();
  planned.sequence = &sequence;
  planned.first_position = segment.first_position;
  planned.num_positions = static_cast<int32_t>(segment.tokens.size());
  for (const Row& row : segment.rows) planned.rows.push_back(row);
  if (!drafts.empty()) planned.drafts = drafts;
  step.num_rows += static_cast<int32_t>(segment.rows.size());

  Flight& flight = sequence.flight;
  if (!segment.rows.empty() && segment.rows.back().kind == RowKind::kSample &&
      !sequence.spec.externally_sampled) {
    flight.num_promised += 1 + segment.num_drafts;
    flight.num_drafts = segment.num_drafts;
    flight.last_promise = {.step = step.id, .row = step.num_rows - 1};
  }
  ++flight.num_steps;
  sequence.num_planned += planned.num_positions;
  sequence.last_step = step.id;
}

absl::Status StepsInFlight::CheckResults(StepId step, size_t num_tokens,
                                         absl::Span<const int32_t> deferred) const {
  const auto it = std::find_if(steps_.begin(), steps_.end(),
                               [step](const PlannedStep& planned) { return planned.id == step; });
  if (it == steps_.end()) {
    return absl::NotFoundError(
        step == 0 || step > last_id_
            ? absl::StrCat("step ", step, " was never planned; the latest is ", last_id_)
            : absl::StrCat("step ", step, " is over: committed or forgotten by a reset"));
  }
  if (it != steps_.begin()) {
    return absl::FailedPreconditionError(absl::StrCat("step ", step, " has results before step ",
                                                      oldest_id(), ", the oldest in flight"));
  }
  if (static_cast<int64_t>(num_tokens) != it->num_rows) {
    return absl::InvalidArgumentError(absl::StrCat(
        "step ", step, " has ", num_tokens, " result rows; it was planned with ", it->num_rows));
  }
  if (!deferred.empty() && (deferred.front() < 0 || deferred.back() >= it->num_rows ||
                            !std::is_sorted(deferred.begin(), deferred.end()))) {
    return absl::InvalidArgumentError(absl::StrCat("step ", step, " has deferred rows from ",
                                                   deferred.front(), " to ", deferred.back(),
                                                   "; accepted: rising, of ", it->num_rows));
  }
  return absl::OkStatus();
}

PlannedStep StepsInFlight::TakeOldest() {
  PlannedStep step = std::move(steps_.front());
  steps_.pop_front();
  return step;
}

void StepsInFlight::Land(SequenceState& sequence, const PlannedSegment& segment, int32_t end,
                         int32_t num_wrong_drafts) {
  --sequence.flight.num_steps;
  sequence.flight.num_promised -= num_wrong_drafts;
  sequence.flight.num_drafts = 0;
  sequence.num_computed = end;
  if (!segment.drafts.empty()) sequence.num_planned = end;
}

void StepsInFlight::Forget(SequenceState& sequence) {
  for (auto step = steps_.begin(); sequence.flight.num_steps > 0 && step != steps_.end(); ++step) {
    for (PlannedSegment& segment : step->segments) {
      if (segment.sequence == &sequence) segment.sequence = nullptr;
    }
  }
  sequence.flight.num_steps = 0;
  sequence.flight.num_promised = 0;
  sequence.flight.num_drafts = 0;
  sequence.num_planned = sequence.num_computed;
}

absl::Status StepsInFlight::CheckIntegrity(const StateTable& table, int64_t max_steps) const {
  if (size() > max_steps) {
    return absl::InternalError(absl::StrCat(size(), " steps are in flight"));
  }
  Spans spans;
  StepId previous = 0;
  for (const PlannedStep& step : steps_) {
    if (step.id <= previous || step.id > last_id_) {
      return absl::InternalError(absl::StrCat("step ", step.id, " is out of order"));
    }
    previous = step.id;
    for (const PlannedSegment& segment : step.segments) {
      const SequenceState* sequence = segment.sequence;
      if (sequence == nullptr) continue;
      Span& span = spans.try_emplace(sequence, Span{.end = sequence->num_computed}).first->second;
      if (span.end != segment.first_position) {
        return BrokenSequence(*sequence,
                              "has a segment in flight that does not follow what is computed");
      }
      ++span.num_steps;
      span.end += segment.num_positions;
    }
  }
  return CheckFlights(table, spans);
}

absl::Status StepsInFlight::CheckFlights(const StateTable& table, const Spans& spans) {
  for (const auto& [id, sequence] : table.all()) {
    const auto found = spans.find(&sequence);
    const int32_t num_steps = found == spans.end() ? 0 : found->second.num_steps;
    if (sequence.flight.num_steps != num_steps ||
        (num_steps > 0 && sequence.num_planned != found->second.end)) {
      return BrokenSequence(sequence, absl::StrCat("claims to be in ", sequence.flight.num_steps,
                                                   " steps in flight, and is in ", num_steps));
    }
  }
  return absl::OkStatus();
}

}  // namespace sluice
