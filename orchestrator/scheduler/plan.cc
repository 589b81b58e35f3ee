// The policy: what goes into the next step.
#include <algorithm>
#include <tuple>
#include <utility>

#include "orchestrator/scheduler/scheduler.h"

namespace sluice {
namespace {

bool GoesBefore(const SequenceState& a, const SequenceState& b) {
  const auto key = [](const SequenceState& sequence) {
    return std::tuple(sequence.place.negated_priority, sequence.tenant->served,
                      ~sequence.tenant->serial, sequence.place);
  };
  return key(a) < key(b);
}

}  // namespace

std::optional<Step> Scheduler::Plan() {
  if (std::ssize(in_flight_) >= options_.max_inflight_steps + options_.steps_ahead) {
    return std::nullopt;
  }
  contended_ = false;
  GiveUpPlacesOfAwaiting();
  PlannedStep& planned = in_flight_.emplace_back();
  planned.id = last_step_ + 1;
  Step step = {.id = planned.id};
  const auto most = std::min<size_t>(running_.size() + 1, options_.max_sequences_per_step);
  step.segments.reserve(most);
  planned.segments.reserve(most);
  // A segment has a token at least, so that more segments than tokens are of no use.
  Budget budget = {
      .tokens = options_.max_tokens_per_step,
      .segments = std::min(options_.max_sequences_per_step, options_.max_tokens_per_step)};
  AdmitUrgent();
  budget.others = RoomForOthers(step.id);
  budget.is_shared = budget.others < budget.tokens;
  PlanDecodes(step, budget);
  PlanPrefills(step, budget);
  BillDecodes();
  if (step.segments.empty()) {
    in_flight_.pop_back();
    return std::nullopt;
  }
  step.ended = kv_cache_.TakeEndedTables();
  step.copies = std::exchange(copies_, {});
  step.after_idle = std::exchange(was_idle_, false);
  last_step_ = step.id;
  planned.num_rows = budget.rows;
  return step;
}

// Something of it can be computed now. A prompt's chunks follow each other in as many steps as
// there are; a token is chosen after the one before it, so that more than one step ahead would only
// stand in line.
bool Scheduler::IsReady(const SequenceState& sequence) const {
  return sequence.num_pending() > 0 && MayRun(sequence) &&
         (sequence.num_in_flight == 0 || MayGoAhead(sequence));
}

// Not to where it is sure to have ended, nor to a length with other keys: what is known then
// decides.
bool Scheduler::MayGoAhead(const SequenceState& sequence) const {
  if (contended_ || options_.steps_ahead == 0) return false;
  if (sequence.num_pending() > 1) return true;
  if (sequence.num_in_flight > options_.steps_ahead) return false;
  return sequence.num_promised == 0 ||
         (sequence.usage.generated_tokens + sequence.num_promised < sequence.spec.max_new_tokens &&
          AreAlike(sequence.length(), sequence.num_tokens()));
}

// Waiting sequences that others have to make room for, before those get into the step and cannot
// be preempted; and those of light tenants, so that the step leaves room for them. They are computed
// as far as this step's tokens go, or in later ones.
void Scheduler::AdmitUrgent() {
  waiting_.BeginRound();
  while (SequenceState* sequence = waiting_.Next()) {
    if (!IsUrgent(*sequence) && !IsLight(*sequence->tenant)) break;
    waiting_.Pass(*sequence);
    if (MayRun(*sequence) && !HeldBack(*sequence) && !Admit(*sequence)) break;
  }
}

// Running sequences that lack one position each, those longest without a step first, those of light
// tenants before all others where the step is shared. Says whether one lacks more than that.
std::vector<SequenceState*> Scheduler::DecodesInTurn(const Budget& budget, bool& prefilling) const {
  std::vector<SequenceState*> decodes;
  decodes.reserve(running_.size());
  for (const auto& [place, sequence] : running_) {
    if (!IsReady(*sequence)) continue;
    if (sequence->num_pending() == 1) {
      decodes.push_back(sequence);
    } else {
      prefilling = true;
    }
  }
  const auto waited_longer = [](auto* a, auto* b) { return a->last_step < b->last_step; };
  if (!std::is_sorted(decodes.begin(), decodes.end(), waited_longer)) {
    std::stable_sort(decodes.begin(), decodes.end(), waited_longer);
  }
  if (budget.is_shared) {
    std::stable_partition(decodes.begin(), decodes.end(),
                          [this](auto* sequence) { return IsLight(*sequence->tenant); });
  }
  return decodes;
}

// Decodes are spread evenly over the steps in flight, because otherwise the first step would take all
// of them and the pipeline's other stages would idle. While a prompt is under way or could be, one
// segment of the step stays free for it, and with it a token; of a shared step half of what others
// may have.
void Scheduler::PlanDecodes(Step& step, Budget& budget) {
  bool prefilling = !waiting_.empty() && std::ssize(running_) < MaxRunning();
  const std::vector<SequenceState*> decodes = DecodesInTurn(budget, prefilling);
  const auto num_running = static_cast<int32_t>(running_.size());
  const int32_t even = (num_running - 1) / options_.max_inflight_steps + 1;
  int32_t slots = std::min(even, std::max(1, budget.segments - (prefilling ? 1 : 0)));
  const int32_t for_prompts = budget.is_shared && prefilling ? budget.others / 2 : 0;
  for (SequenceState* sequence : decodes) {
    if (slots == 0) break;
    if (!sequence->running) continue;   // gave its blocks to one before it
    if (!IsReady(*sequence)) continue;  // one before it needs what others have
    if (MostOf(*sequence, budget) <= for_prompts) break;
    if (!Equip(*sequence, sequence->length())) continue;
    AppendSegment(*sequence, 1, step, budget);
    --slots;
  }
  BillDecodes();
}

// Once for all of a tenant's decodes, because it changes the order of the line.
void Scheduler::BillDecodes() {
  for (Tenant* tenant : unbilled_) {
    waiting_.Bill(*tenant, std::exchange(tenant->unbilled, 0));
  }
  unbilled_.clear();
}

// Prompts (and what else is to be computed again), in chunks of what the step has left: by
// priority, then those of tenants that have been served less, then in line order. The first waiting
// sequence that finds no room closes the door behind it: nobody overtakes it, however small.
// Sequences held back for a sibling's prompt, and tenants that run as many as they may, don't close
// it.
void Scheduler::PlanPrefills(Step& step, Budget& budget) {
  const std::vector<SequenceState*> under_way = PrefillsUnderWay();
  auto running = under_way.begin();
  bool door_open = true;
  waiting_.BeginRound();
  while (budget.segments > 0 && budget.tokens > 0) {
    SequenceState* waiting = door_open ? waiting_.Next() : nullptr;
    if (running != under_way.end() && (waiting == nullptr || GoesBefore(**running, *waiting))) {
      SequenceState& sequence = **running++;
      const int32_t count = std::min(sequence.num_pending(), MostOf(sequence, budget));
      // Unless it gave its blocks to one before it, or has even come back since.
      const bool ready =
          count > 0 && sequence.running && sequence.last_step != step.id && IsReady(sequence);
      if (ready && Equip(sequence, sequence.num_planned + count)) {
        AppendSegment(sequence, count, step, budget);
      }
    } else if (waiting != nullptr) {
      waiting_.Pass(*waiting);
      if (!MayRun(*waiting) || HeldBack(*waiting)) continue;
      const int32_t most = MostOf(*waiting, budget);
      door_open = most > 0 && Admit(*waiting);
      if (!door_open) continue;
      AppendSegment(*waiting, std::min(waiting->num_pending(), most), step, budget);
    } else {
      break;
    }
  }
}

std::vector<SequenceState*> Scheduler::PrefillsUnderWay() const {
  std::vector<SequenceState*> result;
  for (const auto& [place, sequence] : running_) {
    if (sequence->num_pending() > 1 && IsReady(*sequence)) result.push_back(sequence);
  }
  std::stable_sort(result.begin(), result.end(),
                   [](auto* a, auto* b) { return GoesBefore(*a, *b); });
  return result;
}

// One position is a token chosen; more are a prompt, or what is computed again at its price.
void Scheduler::Bill(SequenceState& sequence, int32_t num_positions) {
  Tenant& tenant = *sequence.tenant;
  if (num_positions > 1) return waiting_.Bill(tenant, num_positions * Tenants::kPrefillPrice);
  if (tenant.unbilled == 0) unbilled_.push_back(&tenant);
  tenant.unbilled += Tenants::kDecodePrice;
}

void Scheduler::AppendSegment(SequenceState& sequence, int32_t num_positions, Step& step,
                              Budget& budget) {
  const int32_t first = sequence.num_planned;
  const int32_t end = first + num_positions;
  const TableChange table = kv_cache_.TakeTableChange(sequence.spec.id);
  Segment& segment = step.segments.emplace_back();
  segment.sequence = sequence.spec.id;
  segment.first_position = first;
  if (end <= sequence.num_tokens()) {
    segment.tokens.assign(sequence.tokens.begin() + first, sequence.tokens.begin() + end);
  } else {
    segment.tokens.assign(1, 0);
    segment.chosen_by = sequence.last_promise;
  }
  segment.sequence_length = sequence.length();
  segment.first_block = table.first_block;
  segment.blocks.assign(table.blocks.begin(), table.blocks.end());
  segment.rows = sequence.RowsFor(first, num_positions);
  in_flight_.back().segments.push_back({.sequence = segment.sequence,
                                        .run = sequence.run,
                                        .first_position = first,
                                        .num_positions = num_positions,
                                        .rows = segment.rows});
  budget.rows += static_cast<int32_t>(segment.rows.size());
  budget.tokens -= num_positions;
  if (!IsLight(*sequence.tenant)) budget.others -= num_positions;
  --budget.segments;
  Bill(sequence, num_positions);
  if (!segment.rows.empty() && segment.rows.back().kind == RowKind::kSample &&
      !sequence.spec.chosen_outside) {
    ++sequence.num_promised;
    sequence.last_promise = {.step = step.id, .row = budget.rows - 1};
  }
  sequence.num_planned = end;
  ++sequence.num_in_flight;
  sequence.last_step = step.id;
}

}  // namespace sluice
