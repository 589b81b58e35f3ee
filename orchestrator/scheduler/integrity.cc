// What CheckIntegrity proves beyond what each part proves of itself: that every sequence has the
// blocks, the positions and the steps that its state allows.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "orchestrator/scheduler/scheduler.h"

namespace sluice {
namespace {

absl::Status CheckRunning(const SequenceState& sequence, int32_t num_blocks,
                          const SchedulerOptions& options, const KvCache& kv_cache) {
  const Flight& flight = sequence.flight;
  if (sequence.num_planned < sequence.num_computed || sequence.num_planned > sequence.length() ||
      (flight.num_steps == 0) != (sequence.num_planned == sequence.num_computed) ||
      flight.num_promised - flight.num_drafts > flight.num_steps ||
      (flight.num_drafts > 0 && flight.num_steps != 1)) {
    return BrokenSequence(
        sequence,
        absl::StrCat("has computed ", sequence.num_computed, " and planned ", sequence.num_planned,
                     " positions in ", flight.num_steps, " steps in flight"));
  }
  const int32_t planned_blocks = kv_cache.BlocksFor(sequence.num_planned);
  // Blocks for drafts that were wrong are kept: they will be needed.
  const int32_t ahead = std::max(options.steps_ahead, sequence.spec.max_drafts);
  const int32_t most_blocks = kv_cache.BlocksFor(sequence.num_tokens() + ahead);
  if (num_blocks < std::max(planned_blocks, 1) || num_blocks > most_blocks) {
    return BrokenSequence(
        sequence, absl::StrCat("holds ", num_blocks, " blocks; between ", planned_blocks, " and ",
                               most_blocks, " are right"));
  }
  return kv_cache.CheckStates(sequence.spec.id, sequence.num_computed, sequence.num_planned);
}

// What holds for a sequence by itself.
absl::Status CheckSequence(const SequenceState& sequence, const SchedulerOptions& options,
                           const KvCache& kv_cache) {
  if (sequence.num_tokens() != sequence.num_prompt() + sequence.usage.generated_tokens) {
    return BrokenSequence(sequence, "has tokens that are neither prompt nor generated");
  }
  if (sequence.num_tokens() < sequence.num_computed ||
      (sequence.num_tokens() == sequence.num_computed && !sequence.awaits_choice)) {
    return BrokenSequence(sequence, "is alive with nothing to compute");
  }
  if (sequence.awaits_choice && sequence.is_running() &&
      sequence.num_tokens() != sequence.num_computed) {
    return BrokenSequence(sequence, "awaits a choice with something to compute");
  }
  if (sequence.ReasonToEnd().has_value()) return BrokenSequence(sequence, "has a reason to end");
  if (sequence.paused && sequence.is_running() && sequence.flight.num_steps == 0) {
    return BrokenSequence(sequence, "is paused and holds blocks with no step in flight");
  }
  const auto num_blocks = static_cast<int32_t>(kv_cache.BlockTable(sequence.spec.id).size());
  if (sequence.is_running()) {
    return CheckRunning(sequence, num_blocks, options, kv_cache);
  }
  if (num_blocks != 0 || sequence.num_planned != 0 || sequence.num_computed != 0 ||
      sequence.flight.num_steps != 0) {
    return BrokenSequence(sequence, "waits with blocks, computed positions or a step in flight");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Scheduler::CheckIntegrity() const {
  if (absl::Status status = kv_cache_.CheckIntegrity(); !status.ok()) return status;
  if (absl::Status status = table_.CheckIntegrity(); !status.ok()) return status;
  for (const auto& [id, sequence] : table_.all()) {
    absl::Status status = CheckSequence(sequence, options_, kv_cache_);
    if (status.ok() && sequence.is_running()) {
      status = kv_cache_.CheckContents(id, sequence.tokens);
    }
    if (!status.ok()) return status;
  }
  if (kv_cache_.statistics().num_sequences != std::ssize(table_.running())) {
    return absl::InternalError("a sequence that is not running holds blocks");
  }
  return flights_.CheckIntegrity(table_, options_.max_inflight_steps + options_.steps_ahead);
}

}  // namespace sluice
