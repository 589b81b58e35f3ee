#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "orchestrator/scheduler/scheduler.h"

namespace sluice {
namespace {

absl::Status Broken(const SequenceState& sequence, absl::string_view what) {
  return absl::InternalError(absl::StrCat("sequence ", sequence.spec.id, " ", what));
}

// What holds for a sequence by itself, given the number of blocks it has.
absl::Status CheckSequence(const SequenceState& sequence, int32_t num_blocks, int32_t steps_ahead,
                           const KvCache& kv_cache) {
  if (sequence.num_tokens() != sequence.num_prompt() + sequence.usage.generated_tokens) {
    return Broken(sequence, "has tokens that are neither prompt nor generated");
  }
  if (sequence.num_tokens() < sequence.num_computed ||
      (sequence.num_tokens() == sequence.num_computed && !sequence.awaits_choice)) {
    return Broken(sequence, "is alive with nothing to compute");
  }
  if (sequence.awaits_choice && sequence.running &&
      sequence.num_tokens() != sequence.num_computed) {
    return Broken(sequence, "awaits a choice with something to compute");
  }
  if (sequence.ReasonToEnd().has_value()) return Broken(sequence, "has a reason to end");
  if (sequence.paused && sequence.running && sequence.num_in_flight == 0) {
    return Broken(sequence, "is paused and holds blocks with no step under way");
  }
  if (!sequence.running) {
    if (num_blocks != 0 || sequence.num_planned != 0 || sequence.num_computed != 0 ||
        sequence.num_in_flight != 0) {
      return Broken(sequence, "is waiting with blocks, computed positions or a step in flight");
    }
    return absl::OkStatus();
  }
  if (sequence.num_planned < sequence.num_computed || sequence.num_planned > sequence.length() ||
      (sequence.num_in_flight == 0) != (sequence.num_planned == sequence.num_computed) ||
      sequence.num_promised - sequence.num_drafts > sequence.num_in_flight ||
      (sequence.num_drafts > 0 && sequence.num_in_flight != 1)) {
    return Broken(sequence, absl::StrCat("has computed ", sequence.num_computed, " and planned ",
                                         sequence.num_planned, " positions in ",
                                         sequence.num_in_flight, " steps in flight"));
  }
  const int32_t computed_blocks = kv_cache.BlocksFor(sequence.num_planned);
  // Blocks for drafts that were wrong are kept: they will be needed.
  const int32_t ahead = std::max(steps_ahead, sequence.spec.max_drafts);
  const int32_t all_blocks = kv_cache.BlocksFor(sequence.num_tokens() + ahead);
  if (num_blocks < std::max(computed_blocks, 1) || num_blocks > all_blocks) {
    return Broken(sequence, absl::StrCat("holds ", num_blocks, " blocks; between ", computed_blocks,
                                         " and ", all_blocks, " are right"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Scheduler::CheckIntegrity() const {
  if (absl::Status status = kv_cache_.CheckIntegrity(); !status.ok()) return status;
  if (absl::Status status = CheckParked(); !status.ok()) return status;
  if (absl::Status status = CheckLines(); !status.ok()) return status;
  if (absl::Status status = CheckTenants(); !status.ok()) return status;
  if (std::ssize(running_) > MaxRunning()) {
    return absl::InternalError(
        absl::StrCat(running_.size(), " sequences run; the limit is ", MaxRunning()));
  }
  if (kv_cache_.statistics().num_sequences != std::ssize(running_)) {
    return absl::InternalError("a sequence that is not running holds blocks");
  }
  return CheckStepsInFlight();
}

absl::Status Scheduler::CheckAlone(const SequenceState& sequence) const {
  const auto num_blocks = static_cast<int32_t>(kv_cache_.BlockTable(sequence.spec.id).size());
  return CheckSequence(sequence, num_blocks, options_.steps_ahead, kv_cache_);
}

absl::Status Scheduler::CheckLines() const {
  absl::Status first_failure;
  int64_t num_waiting = 0;
  int64_t num_tokens = 0;
  const auto check = [&](const PlaceInLine& place, const SequenceState& sequence, bool running) {
    num_waiting += running ? 0 : 1;
    num_tokens += running ? 0 : sequence.num_tokens();
    if (Find(sequence.spec.id) != &sequence || sequence.place != place ||
        sequence.running != running) {
      return first_failure.Update(Broken(sequence, "stands in the wrong line or place"));
    }
    first_failure.Update(CheckAlone(sequence));
  };
  waiting_.ForEach([&](const PlaceInLine& place, const SequenceState& sequence) {
    check(place, sequence, false);
  });
  for (const auto& [place, sequence] : running_) {
    check(place, *sequence, true);
    first_failure.Update(kv_cache_.CheckContents(sequence->spec.id, sequence->tokens));
  }
  if (num_waiting != waiting_.num_sequences() || num_tokens != waiting_.num_tokens() ||
      waiting_.num_sequences() + num_parked_ + running_.size() != sequences_.size()) {
    first_failure.Update(absl::InternalError(absl::StrCat(
        sequences_.size(), " sequences are alive, ", num_waiting, " wait with ", num_tokens,
        " tokens, counted as ", waiting_.num_sequences(), " with ", waiting_.num_tokens(), ", ",
        num_parked_, " are parked, and ", running_.size(), " run")));
  }
  return first_failure;
}

absl::Status Scheduler::CheckParked() const {
  int32_t num_parked = 0;
  int32_t num_awaiting = 0;
  for (const auto& [id, sequence] : sequences_) {
    num_awaiting += sequence.running && sequence.awaits_choice ? 1 : 0;
    if (!sequence.parked()) continue;
    ++num_parked;
    if (absl::Status status = CheckAlone(sequence); !status.ok()) return status;
  }
  if (num_parked == num_parked_ && num_awaiting == num_awaiting_) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(num_parked, " sequences are parked and ", num_awaiting,
                                          " running ones await a choice; counted as ", num_parked_,
                                          " and ", num_awaiting_));
}

absl::Status Scheduler::CheckTenants() const {
  struct Count {
    int32_t alive = 0, running = 0, waiting = 0;
    int64_t waiting_tokens = 0;
  };
  absl::flat_hash_map<const Tenant*, Count> counts;
  for (const auto& [id, sequence] : sequences_) {
    Count& count = counts[sequence.tenant];
    ++count.alive;
    count.running += sequence.running ? 1 : 0;
    if (sequence.running || sequence.parked()) continue;
    ++count.waiting;
    count.waiting_tokens += sequence.num_tokens();
  }
  for (const auto& [name, tenant] : tenants_.all()) {
    const Count& count = counts[&tenant];
    if (tenant.num_alive != count.alive || tenant.num_running != count.running ||
        tenant.num_waiting != count.waiting || tenant.num_waiting_tokens != count.waiting_tokens ||
        tenant.unbilled != 0) {
      return absl::InternalError(
          absl::StrCat("tenant \"", name, "\" has ", count.alive, " sequences, ", count.running,
                       " running, ", count.waiting, " waiting with ", count.waiting_tokens,
                       " tokens; counted as ", tenant.num_alive, ", ", tenant.num_running,
                       " running, ", tenant.num_waiting, " waiting with ",
                       tenant.num_waiting_tokens, ", and ", tenant.unbilled, " tokens not billed"));
    }
  }
  return absl::OkStatus();
}

absl::Status Scheduler::CheckStepsInFlight() const {
  if (std::ssize(in_flight_) > options_.max_inflight_steps + options_.steps_ahead) {
    return absl::InternalError(absl::StrCat(in_flight_.size(), " steps are in flight"));
  }
  Flights flights;
  StepId previous = 0;
  for (const PlannedStep& step : in_flight_) {
    if (step.id <= previous || step.id > last_step_) {
      return absl::InternalError(absl::StrCat("step ", step.id, " is out of order"));
    }
    previous = step.id;
    for (const PlannedSegment& segment : step.segments) {
      const SequenceState* sequence = segment.sequence;
      if (sequence == nullptr) continue;
      Flight& flight =
          flights.try_emplace(sequence, Flight{.end = sequence->num_computed}).first->second;
      if (flight.end != segment.first_position) {
        return Broken(*sequence, "has a segment in flight that does not follow what is computed");
      }
      ++flight.num_steps;
      flight.end += segment.num_positions;
    }
  }
  return CheckFlights(flights);
}

absl::Status Scheduler::CheckFlights(const Flights& flights) const {
  for (const auto& [id, sequence] : sequences_) {
    const auto found = flights.find(&sequence);
    const int32_t num_steps = found == flights.end() ? 0 : found->second.num_steps;
    if (sequence.num_in_flight != num_steps ||
        (num_steps > 0 && sequence.num_planned != found->second.end)) {
      return Broken(sequence, absl::StrCat("claims to be in ", sequence.num_in_flight,
                                           " steps in flight, and is in ", num_steps));
    }
  }
  return absl::OkStatus();
}

}  // namespace sluice
