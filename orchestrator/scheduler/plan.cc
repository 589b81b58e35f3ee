// The policy: what goes into the next step.
#include <algorithm>
#include <limits>
#include <utility>

#include "orchestrator/scheduler/scheduler.h"

namespace sluice {

std::optional<Step> Scheduler::Plan() {
  if (std::ssize(in_flight_) >= options_.max_inflight_steps) return std::nullopt;
  Step step = {.id = last_step_ + 1};
  // A segment has a token at least, so that more segments than tokens are of no use.
  Budget budget = {
      .tokens = options_.max_tokens_per_step,
      .segments = std::min(options_.max_sequences_per_step, options_.max_tokens_per_step)};
  AdmitUrgent();
  PlanDecodes(step, budget);
  PlanPrefills(step, budget);
  if (step.segments.empty()) return std::nullopt;
  step.copies = std::exchange(copies_, {});
  last_step_ = step.id;
  in_flight_.push_back(Remember(step));
  return step;
}

// Waiting sequences of higher priority than a running one, before that one gets into the step and
// cannot be preempted. They are computed as far as this step's tokens go, or in later ones.
void Scheduler::AdmitUrgent() {
  PlaceInLine last;
  for (auto it = waiting_.begin(); it != waiting_.end(); it = waiting_.upper_bound(last)) {
    SequenceState& sequence = *it->second;
    if (running_.empty() ||
        sequence.place.negated_priority >= running_.rbegin()->first.negated_priority) {
      break;
    }
    last = sequence.place;
    if (MayRun(sequence) && !HeldBack(sequence) && !Admit(sequence)) break;
  }
}

// Running sequences that lack one position each, those longest without a step first. They are
// spread evenly over the steps in flight, because otherwise the first step would take all of them
// and the pipeline's other stages would idle. While a prompt is under way or could be, one segment
// of the step stays free for it, and with it a token.
void Scheduler::PlanDecodes(Step& step, Budget& budget) {
  std::vector<SequenceState*> decodes;
  bool prefilling = !waiting_.empty() && std::ssize(running_) < MaxRunning();
  for (const auto& [place, sequence] : running_) {
    if (sequence->in_flight != 0 || !MayRun(*sequence)) continue;
    if (sequence->num_pending() == 1) {
      decodes.push_back(sequence);
    } else {
      prefilling = true;
    }
  }
  std::stable_sort(decodes.begin(), decodes.end(),
                   [](auto* a, auto* b) { return a->last_step < b->last_step; });

  const auto num_running = static_cast<int32_t>(running_.size());
  const int32_t even = (num_running - 1) / options_.max_inflight_steps + 1;
  int32_t slots = std::min(even, std::max(1, budget.segments - (prefilling ? 1 : 0)));
  for (SequenceState* sequence : decodes) {
    if (slots == 0) break;
    if (!sequence->running) continue;  // gave its blocks to one before it
    if (!Equip(*sequence, sequence->num_tokens())) continue;
    AppendSegment(*sequence, 1, step, budget);
    --slots;
  }
}

// Prompts (and what else is to be computed again), in line order and in chunks of what the step
// has left. The first waiting sequence that finds no room closes the door behind it: nobody
// overtakes it, however small. Sequences held back for a sibling's prompt don't close it.
void Scheduler::PlanPrefills(Step& step, Budget& budget) {
  const std::vector<SequenceState*> under_way = PrefillsUnderWay();
  auto running = under_way.begin();
  // The waiting ones looked at; an iterator would not outlive their coming and going.
  PlaceInLine seen = {.negated_priority = std::numeric_limits<int64_t>::min()};
  bool door_open = true;
  while (budget.segments > 0 && budget.tokens > 0) {
    const auto waiting = door_open ? waiting_.upper_bound(seen) : waiting_.end();
    if (running != under_way.end() &&
        (waiting == waiting_.end() || (*running)->place < waiting->first)) {
      SequenceState& sequence = **running++;
      const int32_t count = std::min(sequence.num_pending(), budget.tokens);
      // Unless it gave its blocks to one before it, or has even come back since.
      const bool ready = sequence.running && sequence.in_flight == 0;
      if (ready && Equip(sequence, sequence.num_computed + count)) {
        AppendSegment(sequence, count, step, budget);
      }
    } else if (waiting != waiting_.end()) {
      SequenceState& sequence = *waiting->second;
      seen = sequence.place;
      if (!MayRun(sequence) || HeldBack(sequence)) continue;
      door_open = Admit(sequence);
      if (!door_open) continue;
      AppendSegment(sequence, std::min(sequence.num_pending(), budget.tokens), step, budget);
    } else {
      break;
    }
  }
}

// In line order.
std::vector<SequenceState*> Scheduler::PrefillsUnderWay() const {
  std::vector<SequenceState*> result;
  for (const auto& [place, sequence] : running_) {
    const bool prefilling = sequence->in_flight == 0 && sequence->num_pending() > 1;
    if (prefilling && MayRun(*sequence)) result.push_back(sequence);
  }
  return result;
}

void Scheduler::AppendSegment(SequenceState& sequence, int32_t num_positions, Step& step,
                              Budget& budget) {
  const int32_t first = sequence.num_computed;
  const int32_t end = first + num_positions;
  const absl::Span<const BlockId> table =
      kv_cache_.BlockTable(sequence.spec.id).first(kv_cache_.BlocksFor(end));
  step.segments.push_back({
      .sequence = sequence.spec.id,
      .first_position = first,
      .tokens = {sequence.tokens.begin() + first, sequence.tokens.begin() + end},
      .sequence_length = sequence.num_tokens(),
      .block_table = {table.begin(), table.end()},
      .rows = sequence.RowsFor(first, num_positions),
  });
  sequence.in_flight = step.id;
  sequence.last_step = step.id;
  budget.tokens -= num_positions;
  --budget.segments;
}

}  // namespace sluice
