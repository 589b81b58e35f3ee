// The policy: what goes into the next step, and who gives up blocks for it.
#include <algorithm>
#include <limits>

#include "kernels/check.h"
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
  last_step_ = step.id;
  in_flight_.push_back(Remember(step));
  return step;
}

// Waiting sequences of higher priority than a running one, before that one gets into the step and
// cannot be preempted. They are computed as far as this step's tokens go, or in later ones.
void Scheduler::AdmitUrgent() {
  const auto urgent = [this](const SequenceState* sequence) {
    return !running_.empty() &&
           sequence->rank.negated_priority < running_.rbegin()->first.negated_priority;
  };
  std::vector<SequenceState*> candidates;
  for (const auto& [rank, sequence] : waiting_) {
    if (!urgent(sequence)) break;
    if (!HeldBack(*sequence)) candidates.push_back(sequence);
  }
  for (SequenceState* sequence : candidates) {
    if (!urgent(sequence) || !Admit(*sequence)) break;
  }
}

// Running sequences that lack one position each, those longest without a step first. They are
// spread evenly over the steps in flight, because otherwise the first step would take all of them
// and the pipeline's other stages would idle. While a prompt is under way or could be, one segment
// of the step stays free for it, and with it a token.
void Scheduler::PlanDecodes(Step& step, Budget& budget) {
  std::vector<SequenceState*> decodes;
  bool prefilling = !waiting_.empty() && std::ssize(running_) < MaxRunning();
  for (const auto& [rank, sequence] : running_) {
    if (sequence->in_flight != 0) continue;
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
    const auto held = static_cast<int32_t>(kv_cache_.BlockTable(sequence->spec.id).size());
    const int32_t needed = kv_cache_.BlocksFor(sequence->num_tokens()) - held;
    if (!MakeRoom(needed, 0, sequence->rank)) continue;
    SLUICE_CHECK(kv_cache_.Reserve(sequence->spec.id, sequence->num_tokens()).ok());
    AppendSegment(*sequence, 1, step, budget);
    --slots;
  }
}

// Prompts (and what else is to be computed again), in line order and in chunks of what the step
// has left. The first waiting sequence that finds no room closes the door behind it: nobody
// overtakes it, however small. Sequences held back for a sibling's prompt don't close it.
void Scheduler::PlanPrefills(Step& step, Budget& budget) {
  if (budget.segments == 0 || budget.tokens == 0) return;
  std::vector<SequenceState*> prefills;
  for (const auto& [rank, sequence] : running_) {
    if (sequence->in_flight == 0 && sequence->num_pending() > 1) prefills.push_back(sequence);
  }
  const auto num_under_way = std::ssize(prefills);
  for (const auto& [rank, sequence] : waiting_) prefills.push_back(sequence);
  std::inplace_merge(prefills.begin(), prefills.begin() + num_under_way, prefills.end(),
                     [](auto* a, auto* b) { return a->rank < b->rank; });

  bool door_open = true;
  for (SequenceState* sequence : prefills) {
    if (budget.segments == 0 || budget.tokens == 0) break;
    if (!sequence->running) {
      if (!door_open || HeldBack(*sequence)) continue;
      door_open = Admit(*sequence);
      if (!door_open) continue;
    }
    AppendSegment(*sequence, std::min(sequence->num_pending(), budget.tokens), step, budget);
  }
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

// Only for a sibling ahead of it in line, because that one is sure to be computed without it.
bool Scheduler::HeldBack(const SequenceState& sequence) const {
  const SequenceState* sibling = SharesWith(sequence);
  return sibling != nullptr && sibling->rank < sequence.rank &&
         sibling->num_computed < sequence.num_prompt();
}

const SequenceState* Scheduler::SharesWith(const SequenceState& sequence) const {
  if (!sequence.sibling_arrival.has_value()) return nullptr;
  const SequenceState* sibling = Find(*sequence.spec.prompt_of);
  const bool same = sibling != nullptr && sibling->rank.arrival == *sequence.sibling_arrival;
  return same && AreAlike(sibling->num_tokens(), sequence.num_tokens()) ? sibling : nullptr;
}

bool Scheduler::AreAlike(int32_t length, int32_t other_length) const {
  return !options_.longest_like ||
         options_.longest_like(length) == options_.longest_like(other_length);
}

// From waiting to running, with blocks for every token it has: a prompt under way never runs out
// of blocks. Only sequences of lower priority make room for it.
bool Scheduler::Admit(SequenceState& sequence) {
  const SequenceId id = sequence.spec.id;
  int32_t shared = 0;
  if (const SequenceState* sibling = SharesWith(sequence);
      sibling != nullptr && sibling->num_computed >= sequence.num_prompt()) {
    // Its last position is computed in any case, because it chooses the next token.
    shared = kv_cache_.SharePrefix(sibling->spec.id, id, sequence.num_prompt() - 1);
  }
  const int32_t needed = kv_cache_.BlocksFor(sequence.num_tokens()) - kv_cache_.BlocksFor(shared);
  const Rank last_of_its_priority = {.negated_priority = sequence.rank.negated_priority,
                                     .arrival = std::numeric_limits<uint64_t>::max()};
  if (!MakeRoom(needed, 1, last_of_its_priority)) {
    kv_cache_.Release(id);
    return false;
  }
  SLUICE_CHECK(kv_cache_.Reserve(id, sequence.num_tokens()).ok());
  sequence.num_computed = shared;
  sequence.usage.shared_positions += shared;
  sequence.running = true;
  waiting_.erase(sequence.rank);
  running_.emplace(sequence.rank, &sequence);
  return true;
}

// True once so many blocks are free and so many more may run, if need be by preempting running
// sequences behind `below` that are not in flight, the last in line first. Preempts nobody when all
// of them would not do.
bool Scheduler::MakeRoom(int32_t num_blocks, int32_t num_places, Rank below) {
  const auto enough = [&](int32_t freed_blocks, size_t freed_places) {
    return kv_cache_.num_free_blocks() + freed_blocks >= num_blocks &&
           std::ssize(running_) + num_places <= MaxRunning() + static_cast<int64_t>(freed_places);
  };
  if (enough(0, 0)) return true;
  std::vector<SequenceState*> victims;
  std::vector<SequenceId> ids;
  for (auto it = running_.rbegin(); it != running_.rend() && below < it->first; ++it) {
    if (it->second->in_flight != 0) continue;
    victims.push_back(it->second);
    ids.push_back(it->second->spec.id);
  }
  if (!enough(kv_cache_.BlocksFreedBy(ids), ids.size())) return false;
  for (SequenceState* victim : victims) {
    if (enough(0, 0)) break;
    ++victim->usage.preemptions;
    ThrowBack(*victim);
  }
  return true;
}

int64_t Scheduler::MaxRunning() const {
  return int64_t{options_.max_sequences_per_step} * options_.max_inflight_steps;
}

void Scheduler::ThrowBack(SequenceState& sequence) {
  kv_cache_.Release(sequence.spec.id);
  sequence.num_computed = 0;
  sequence.running = false;
  sequence.in_flight = 0;
  running_.erase(sequence.rank);
  waiting_.emplace(sequence.rank, &sequence);
}

}  // namespace sluice
