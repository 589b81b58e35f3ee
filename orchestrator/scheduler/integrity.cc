#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "orchestrator/scheduler/scheduler.h"

namespace sluice {
namespace {

absl::Status Broken(const SequenceState& sequence, absl::string_view what) {
  return absl::InternalError(absl::StrCat("sequence ", sequence.spec.id, " ", what));
}

// What holds for a sequence by itself, given the number of blocks it has.
absl::Status CheckSequence(const SequenceState& sequence, int32_t num_blocks,
                           const KvCache& kv_cache) {
  if (sequence.num_tokens() != sequence.num_prompt() + sequence.usage.generated_tokens) {
    return Broken(sequence, "has tokens that are neither prompt nor generated");
  }
  if (sequence.num_pending() < 1) return Broken(sequence, "is alive with nothing to compute");
  if (sequence.ReasonToEnd().has_value()) return Broken(sequence, "has a reason to end");
  if (!sequence.running) {
    if (num_blocks != 0 || sequence.num_computed != 0 || sequence.in_flight != 0) {
      return Broken(sequence, "is waiting with blocks, computed positions or a step in flight");
    }
    return absl::OkStatus();
  }
  const int32_t computed_blocks = kv_cache.BlocksFor(sequence.num_computed);
  const int32_t all_blocks = kv_cache.BlocksFor(sequence.num_tokens());
  if (num_blocks < std::max(computed_blocks, 1) || num_blocks > all_blocks) {
    return Broken(sequence, absl::StrCat("holds ", num_blocks, " blocks; between ", computed_blocks,
                                         " and ", all_blocks, " are right"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Scheduler::CheckIntegrity() const {
  if (absl::Status status = kv_cache_.CheckIntegrity(); !status.ok()) return status;
  for (const Line* line : {&waiting_, &running_}) {
    for (const auto& [place, sequence] : *line) {
      if (Find(sequence->spec.id) != sequence || sequence->place != place ||
          sequence->running != (line == &running_)) {
        return Broken(*sequence, "stands in the wrong line or place");
      }
      const auto num_blocks = static_cast<int32_t>(kv_cache_.BlockTable(sequence->spec.id).size());
      if (absl::Status status = CheckSequence(*sequence, num_blocks, kv_cache_); !status.ok()) {
        return status;
      }
    }
  }
  if (waiting_.size() + running_.size() != sequences_.size()) {
    return absl::InternalError(absl::StrCat(sequences_.size(), " sequences are alive, ",
                                            waiting_.size(), " wait and ", running_.size(),
                                            " run"));
  }
  if (std::ssize(running_) > MaxRunning()) {
    return absl::InternalError(
        absl::StrCat(running_.size(), " sequences run; the limit is ", MaxRunning()));
  }
  if (kv_cache_.statistics().num_sequences != std::ssize(running_)) {
    return absl::InternalError("a sequence that is not running holds blocks");
  }
  return CheckStepsInFlight();
}

absl::Status Scheduler::CheckStepsInFlight() const {
  if (std::ssize(in_flight_) > options_.max_inflight_steps) {
    return absl::InternalError(absl::StrCat(in_flight_.size(), " steps are in flight"));
  }
  absl::flat_hash_set<SequenceId> seen;
  StepId previous = 0;
  for (const PlannedStep& step : in_flight_) {
    if (step.id <= previous || step.id > last_step_) {
      return absl::InternalError(absl::StrCat("step ", step.id, " is out of order"));
    }
    previous = step.id;
    for (const PlannedSegment& segment : step.segments) {
      const SequenceState* sequence = Find(segment.sequence);
      if (sequence == nullptr || sequence->in_flight != step.id) continue;  // it ended meanwhile
      if (!seen.insert(segment.sequence).second) return Broken(*sequence, "is in flight twice");
      if (sequence->num_computed != segment.first_position) {
        return Broken(*sequence, "has a segment in flight that does not follow what is computed");
      }
    }
  }
  for (const auto& [id, sequence] : sequences_) {
    if (sequence.in_flight != 0 && !seen.contains(id)) {
      return Broken(sequence, absl::StrCat("claims to be in step ", sequence.in_flight));
    }
  }
  return absl::OkStatus();
}

}  // namespace sluice
