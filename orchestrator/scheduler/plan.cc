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
  RefreshPolicies();
  if (!HasRoomForAStep()) return std::nullopt;
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
  FindReady();
  budget.others = RoomForOthers(step.id);
  budget.is_shared = budget.others < budget.tokens;
  PlanDecodes(step, budget);
  PlanPrefills(step, budget);
  BillDecodes();
  if (step.segments.empty()) {
    in_flight_.pop_back();
    return std::nullopt;
  }
  planned.num_rows = budget.rows;
  Complete(step);
  return step;
}

bool Scheduler::HasRoomForAStep() {
  const auto has_room = [this](int32_t steps_ahead) {
    return std::ssize(in_flight_) < options_.max_inflight_steps + steps_ahead;
  };
  if (!has_room(options_.steps_ahead)) return false;
  AgreeOnStepsAhead();
  return has_room(steps_ahead_);
}

// With what has happened since the step before.
void Scheduler::Complete(Step& step) {
  step.ended = kv_cache_.TakeEndedTables();
  step.preempted = std::exchange(preempted_, {});
  step.copies = std::exchange(copies_, {});
  step.after_idle = std::exchange(was_idle_, false);
  last_step_ = step.id;
}

// A sequence is either planned ahead of its tokens or, once they are known, drafted on. Where drafts
// win more, no step goes ahead: it would be a turn that those drafted on miss. Beside prompts nothing
// is guessed, and nobody waits for a guess.
void Scheduler::AgreeOnStepsAhead() {
  steps_ahead_ = options_.steps_ahead;
  may_hold_ = false;
  if (options_.drafts == nullptr) return;
  if (!options_.drafts->AllWait(static_cast<int32_t>(running_.size()))) return;
  if (IsPrefilling()) return;
  may_hold_ = true;
  steps_ahead_ = 0;
}

// Something of it can be computed now. A prompt's chunks follow each other in as many steps as
// there are; a token is chosen after the one before it, so that more than one step ahead would only
// stand in line.
bool Scheduler::IsReady(const SequenceState& sequence) const {
  if (sequence.num_pending() == 0 || !MayRun(sequence)) return false;
  if (sequence.num_in_flight > 0) return MayGoAhead(sequence);
  return !may_hold_ || sequence.num_pending() > 1 || sequence.spec.max_drafts == 0 ||
         !options_.drafts->Holds(sequence.spec.id, sequence.num_tokens());
}

// Not to where it is sure to have ended, nor to a length with other keys: what is known then
// decides.
bool Scheduler::MayGoAhead(const SequenceState& sequence) const {
  if (contended_ || steps_ahead_ == 0 || sequence.num_drafts > 0) return false;
  if (sequence.num_pending() > 1) return true;
  if (sequence.num_in_flight > steps_ahead_ || sequence.was_deferred) return false;
  if (sequence.spec.max_drafts > 0 && options_.drafts != nullptr &&
      options_.drafts->Waits(sequence.spec.id)) {
    return false;
  }
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

// Running sequences of which something can be computed, in line order: decodes, which lack one
// position each, and prompts, which lack more.
void Scheduler::FindReady() {
  decodes_.clear();
  prefills_.clear();
  decodes_in_turn_ = true;
  for (const auto& [place, sequence] : running_) {
    if (!IsReady(*sequence)) continue;
    if (sequence->num_pending() > 1) {
      prefills_.push_back(sequence);
      continue;
    }
    const bool waited_longer =
        !decodes_.empty() && sequence->last_step < decodes_.back()->last_step;
    if (waited_longer) decodes_in_turn_ = false;
    decodes_.push_back(sequence);
  }
}

// Those longest without a step first, those of light tenants before all others where the step is
// shared.
void Scheduler::PutDecodesInTurn(const Budget& budget) {
  if (!decodes_in_turn_) {
    std::stable_sort(decodes_.begin(), decodes_.end(),
                     [](auto* a, auto* b) { return a->last_step < b->last_step; });
  }
  if (!budget.is_shared) return;
  std::stable_partition(decodes_.begin(), decodes_.end(),
                        [this](auto* sequence) { return IsLight(*sequence->tenant); });
}

// A prompt goes on in this step, or one could begin.
bool Scheduler::MayPrefill() const {
  return !prefills_.empty() || (!waiting_.empty() && std::ssize(running_) < MaxRunning());
}

// Decodes are spread evenly over the steps in flight, because otherwise the first step would take all
// of them and the pipeline's other stages would idle. While a prompt is under way or could be, one
// segment of the step stays free for it, and with it a token; of a shared step half of what others
// may have.
void Scheduler::PlanDecodes(Step& step, Budget& budget) {
  PutDecodesInTurn(budget);
  const absl::Span<SequenceState* const> decodes = decodes_;
  const bool prefilling = MayPrefill();
  const auto num_running = static_cast<int32_t>(running_.size());
  const int32_t even = (num_running - 1) / options_.max_inflight_steps + 1;
  int32_t slots = std::min(even, std::max(1, budget.segments - (prefilling ? 1 : 0)));
  const int32_t for_prompts = budget.is_shared && prefilling ? budget.others / 2 : 0;
  const auto turns = std::min(slots, static_cast<int32_t>(decodes.size()));
  // Of a shared step those of light tenants, which come first: what others may have is counted.
  const auto drafted = std::find_if(decodes.begin(), decodes.begin() + turns, [&](auto* sequence) {
    return budget.is_shared && !IsLight(*sequence->tenant);
  });
  std::vector<Tokens> drafts = AskForDrafts(
      decodes.first(drafted - decodes.begin()),
      {.num_decodes = turns, .tokens = budget.tokens - turns, .beside_prompts = prefilling});
  Tokens none;
  for (size_t i = 0; i < decodes.size() && slots > 0; ++i) {
    SequenceState* const sequence = decodes[i];
    Tokens& draft = i < drafts.size() ? drafts[i] : none;
    if (!sequence->running) continue;                 // gave its blocks to one before it
    if (contended_ && !IsReady(*sequence)) continue;  // one before it needs what others have
    if (MostOf(*sequence, budget) <= for_prompts) break;
    if (!Equip(*sequence, sequence->length())) continue;
    if (!draft.empty()) EquipDraft(*sequence, draft);
    AppendSegment(*sequence, 1, draft, step, budget);
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
  PutPrefillsInTurn();
  auto running = prefills_.begin();
  bool door_open = true;
  waiting_.BeginRound();
  while (budget.segments > 0 && budget.tokens > 0) {
    SequenceState* waiting = door_open ? waiting_.Next() : nullptr;
    if (running != prefills_.end() && (waiting == nullptr || GoesBefore(**running, *waiting))) {
      SequenceState& sequence = **running++;
      const int32_t count = std::min(sequence.num_pending(), MostOf(sequence, budget));
      // Unless it gave its blocks to one before it, or has even come back since.
      const bool ready =
          count > 0 && sequence.running && sequence.last_step != step.id && IsReady(sequence);
      if (ready && Equip(sequence, sequence.num_planned + count)) {
        AppendSegment(sequence, count, {}, step, budget);
      }
    } else if (waiting != nullptr) {
      waiting_.Pass(*waiting);
      if (!MayRun(*waiting) || HeldBack(*waiting)) continue;
      const int32_t most = MostOf(*waiting, budget);
      door_open = most > 0 && Admit(*waiting);
      if (!door_open) continue;
      AppendSegment(*waiting, std::min(waiting->num_pending(), most), {}, step, budget);
    } else {
      break;
    }
  }
}

// Without those that have given up their blocks meanwhile.
void Scheduler::PutPrefillsInTurn() {
  std::erase_if(prefills_, [this](const SequenceState* sequence) {
    return !sequence->running || !IsReady(*sequence);
  });
  std::stable_sort(prefills_.begin(), prefills_.end(),
                   [](auto* a, auto* b) { return GoesBefore(*a, *b); });
}

// One position is a token chosen; more are a prompt, or what is computed again at its price, as
// drafts are.
void Scheduler::Bill(SequenceState& sequence, int32_t num_positions, int32_t num_drafts) {
  Tenant& tenant = *sequence.tenant;
  if (num_positions > 1) return waiting_.Bill(tenant, num_positions * Tenants::kPrefillPrice);
  if (tenant.unbilled == 0) unbilled_.push_back(&tenant);
  tenant.unbilled += Tenants::kDecodePrice + num_drafts * Tenants::kPrefillPrice;
}

// What the stages are to compute of it. The drafts come after the positions.
void Scheduler::Describe(const SequenceState& sequence, int32_t num_positions, const Tokens& draft,
                         Segment& segment) {
  const int32_t first = sequence.num_planned;
  const int32_t end = first + num_positions;
  const auto num_drafts = static_cast<int32_t>(draft.size());
  segment.sequence = sequence.spec.id;
  segment.first_position = first;
  if (end > sequence.num_tokens()) {
    segment.tokens.push_back(0);
    segment.chosen_by = sequence.last_promise;
  } else if (num_positions == 1) {
    segment.tokens.push_back(sequence.tokens[first]);
  } else {
    segment.tokens.assign(sequence.tokens.begin() + first, sequence.tokens.begin() + end);
  }
  if (num_drafts > 0) segment.tokens.insert(segment.tokens.end(), draft.begin(), draft.end());
  segment.num_drafts = num_drafts;
  segment.sequence_length = sequence.length() + num_drafts;
  const TableChange table = kv_cache_.TakeTableChange(sequence.spec.id);
  segment.first_block = table.first_block;
  if (!table.blocks.empty()) segment.blocks.assign(table.blocks.begin(), table.blocks.end());
  sequence.AddRowsFor(first, num_positions, segment.rows);
  for (int32_t i = 0; i < num_drafts; ++i) segment.rows.push_back({.offset = num_positions + i});
}

void Scheduler::AppendSegment(SequenceState& sequence, int32_t num_positions, const Tokens& draft,
                              Step& step, Budget& budget) {
  const int32_t first = sequence.num_planned;
  const auto num_drafts = static_cast<int32_t>(draft.size());
  Segment& segment = step.segments.emplace_back();
  Describe(sequence, num_positions, draft, segment);
  PlannedSegment& planned = in_flight_.back().segments.emplace_back();
  planned.sequence = &sequence;
  planned.first_position = first;
  planned.num_positions = num_positions + num_drafts;
  for (const Row& row : segment.rows) planned.rows.push_back(row);
  if (num_drafts > 0) planned.drafts = draft;
  budget.rows += static_cast<int32_t>(segment.rows.size());
  budget.tokens -= num_positions + num_drafts;
  if (!IsLight(*sequence.tenant)) budget.others -= num_positions;
  --budget.segments;
  Bill(sequence, num_positions, num_drafts);
  if (!segment.rows.empty() && segment.rows.back().kind == RowKind::kSample &&
      !sequence.spec.chosen_outside) {
    sequence.num_promised += 1 + num_drafts;
    sequence.num_drafts = num_drafts;
    sequence.last_promise = {.step = step.id, .row = budget.rows - 1};
  }
  sequence.num_planned = first + num_positions + num_drafts;
  ++sequence.num_in_flight;
  sequence.last_step = step.id;
}

}  // namespace sluice
