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
  PlanDecodes(step, budget);
  PlanPrefills(step, budget);
  if (step.segments.empty()) return std::nullopt;
  last_step_ = step.id;
  in_flight_.push_back(Remember(step));
  return step;
}

// Running sequences that lack one position each, those longest without a step first. They are
// spread evenly over the steps in flight, because otherwise the first step would take all of them
// and the pipeline's other stages would idle. While a prompt is being computed, one segment of the
// step stays free for it, and with it a token.
void Scheduler::PlanDecodes(Step& step, Budget& budget) {
  std::vector<SequenceState*> decodes;
  bool prefilling = false;
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
    if (!MakeRoom(needed, sequence->rank)) continue;
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
  for (const Line* line : {&running_, &waiting_}) {
    for (const auto& [rank, sequence] : *line) {
      if (sequence->in_flight == 0 && (!sequence->running || sequence->num_pending() > 1)) {
        prefills.push_back(sequence);
      }
    }
  }
  std::sort(prefills.begin(), prefills.end(), [](auto* a, auto* b) { return a->rank < b->rank; });

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
      .block_table = {table.begin(), table.end()},
      .rows = sequence.RowsFor(first, num_positions),
  });
  sequence.in_flight = step.id;
  sequence.last_step = step.id;
  budget.tokens -= num_positions;
  --budget.segments;
}

// A later one in line would be computed no sooner for waiting, and may not be waited for: it might
// itself wait for the blocks that this sequence's request holds.
bool Scheduler::HeldBack(const SequenceState& sequence) const {
  const SequenceState* sibling = SharesWith(sequence);
  return sibling != nullptr && sibling->rank < sequence.rank &&
         sibling->num_computed < sequence.num_prompt();
}

const SequenceState* Scheduler::SharesWith(const SequenceState& sequence) const {
  if (!sequence.spec.prompt_of.has_value() || sequence.spec.score_prompt) return nullptr;
  return Find(*sequence.spec.prompt_of);
}

// From waiting to running, with blocks for every token it has: a prompt under way never runs out
// of blocks. Only sequences of lower priority make room for it.
bool Scheduler::Admit(SequenceState& sequence) {
  const int64_t places =
      int64_t{options_.max_sequences_per_step} * int64_t{options_.max_inflight_steps};
  if (std::ssize(running_) >= places) return false;

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
  if (!MakeRoom(needed, last_of_its_priority)) {
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

// True once `num_blocks` are free, if need be by preempting running sequences behind `below` that
// are not in flight, the last in line first. Preempts nobody when all of them would not do.
bool Scheduler::MakeRoom(int32_t num_blocks, Rank below) {
  if (kv_cache_.num_free_blocks() >= num_blocks) return true;
  std::vector<SequenceState*> victims;
  std::vector<SequenceId> ids;
  for (auto it = running_.rbegin(); it != running_.rend() && below < it->first; ++it) {
    if (it->second->in_flight != 0) continue;
    victims.push_back(it->second);
    ids.push_back(it->second->spec.id);
  }
  if (kv_cache_.num_free_blocks() + kv_cache_.BlocksFreedBy(ids) < num_blocks) return false;
  for (SequenceState* victim : victims) {
    if (kv_cache_.num_free_blocks() >= num_blocks) break;
    ++victim->usage.preemptions;
    ThrowBack(*victim);
  }
  return true;
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
