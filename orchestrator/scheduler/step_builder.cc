#include "orchestrator/scheduler/step_builder.h"

#include <algorithm>

namespace sluice {

StepBuilder::StepBuilder(const SchedulerOptions& options, KvCache& kv_cache, StateTable& table,
                         StepsInFlight& flights, AdmissionQueue& admission, BlockBudget& budget)
    : options_(options),
      kv_cache_(kv_cache),
      table_(table),
      flights_(flights),
      admission_(admission),
      budget_(budget),
      lookahead_(options, table, flights, admission, budget),
      drafts_(options, budget),
      sharing_(options, table, flights, admission) {}

std::optional<Step> StepBuilder::Build() {
  admission_.Refresh();
  if (!lookahead_.BeginStep()) return std::nullopt;
  budget_.BeginStep();
  const auto most = std::min<size_t>(table_.running().size() + 1, options_.max_sequences_per_step);
  flights_.Begin(most);
  Step step = {.id = flights_.next_id()};
  step.segments.reserve(most);
  // A segment has at least one token, so that more segments than tokens are of no use.
  Room room = {.tokens = options_.max_tokens_per_step,
               .segments = std::min(options_.max_sequences_per_step, options_.max_tokens_per_step)};
  AdmitUrgent();
  FindReady();
  room.others = sharing_.RoomForOthers(MayPrefill());
  room.is_shared = room.others < room.tokens;
  PlanDecodes(step, room);
  PlanPrefills(step, room);
  admission_.ChargeDecodes();
  if (step.segments.empty()) {
    flights_.Drop();
    return std::nullopt;
  }
  flights_.Complete();
  step.adapters = table_.adapters().TakeChanges();
  step.ended = kv_cache_.TakeEndedTables();
  step.preempted = budget_.TakePreempted();
  step.copies = budget_.TakeCopies();
  step.state_copies = budget_.TakeStateCopies();
  return step;
}

// Waiting sequences that others are preempted for, before those get into the step and cannot be
// preempted; and sequences of tenants below their fair share, so that the step leaves room for
// them. They are computed as far as this step's tokens go, or in later steps.
void StepBuilder::AdmitUrgent() {
  admission_.BeginRound();
  while (SequenceState* sequence = admission_.Next()) {
    if (!budget_.IsUrgent(*sequence) && !admission_.IsBelowFairShare(*sequence->tenant)) break;
    admission_.Pass(*sequence);
    if (admission_.IsServed(*sequence) && !admission_.WaitsForSibling(*sequence) &&
        table_.HasAdapterSlot(*sequence) && !budget_.Admit(*sequence)) {
      break;
    }
  }
}

void StepBuilder::FindReady() {
  decodes_.clear();
  prefills_.clear();
  decodes_in_order_ = true;
  for (const auto& [position, sequence] : table_.running()) {
    if (!lookahead_.IsReady(*sequence)) continue;
    if (sequence->num_pending() > 1) {
      prefills_.push_back(sequence);
      continue;
    }
    const bool waited_longer =
        !decodes_.empty() && sequence->last_step < decodes_.back()->last_step;
    if (waited_longer) decodes_in_order_ = false;
    decodes_.push_back(sequence);
  }
}

// A prompt goes on in this step, or one could begin.
bool StepBuilder::MayPrefill() const {
  return !prefills_.empty() || (!table_.queue().empty() && table_.has_free_slot());
}

// Positions of the sequence that the step may have.
int32_t StepBuilder::MostPositions(const SequenceState& sequence, const Room& room) const {
  if (!room.is_shared || admission_.IsBelowFairShare(*sequence.tenant)) return room.tokens;
  return std::min(room.tokens, room.others);
}

int32_t StepBuilder::PositionsFor(const SequenceState& sequence, const Step& step,
                                  const Room& room) const {
  const int32_t pending = sequence.num_pending(), most = MostPositions(sequence, room);
  // Of what is computed in one piece, a text or its source.
  int32_t piece = sequence.spec.in_one_piece ? pending : 0;
  if (const int32_t filled = FilledSource(sequence.spec.source_positions);
      sequence.num_planned < filled) {
    piece = filled - sequence.num_planned;
  }
  if (piece <= most) return std::min(pending, most);
  // One that is longer than what a shared step leaves to others would wait for ever.
  return step.segments.empty() && piece <= room.tokens ? piece : 0;
}

// ---- Decodes ----

// Those longest without a step first; where the step is shared, those of tenants below their fair
// share before all others.
void StepBuilder::OrderDecodes(const Room& room) {
  if (!decodes_in_order_) {
    std::stable_sort(decodes_.begin(), decodes_.end(),
                     [](auto* a, auto* b) { return a->last_step < b->last_step; });
  }
  if (!room.is_shared) return;
  std::stable_partition(decodes_.begin(), decodes_.end(), [this](auto* sequence) {
    return admission_.IsBelowFairShare(*sequence->tenant);
  });
}

// Decodes are spread evenly over the steps in flight, because otherwise the first step would take
// all of them and the pipeline's other stages would idle. While a prompt is in progress or could
// begin, one segment of the step stays free for it, and with it a token; of a shared step half of
// what others may have.
void StepBuilder::PlanDecodes(Step& step, Room& room) {
  OrderDecodes(room);
  const absl::Span<SequenceState* const> decodes = decodes_;
  const bool prefilling = MayPrefill();
  const auto num_running = static_cast<int32_t>(table_.running().size());
  const int32_t even = (num_running - 1) / options_.max_inflight_steps + 1;
  int32_t left = std::min(even, std::max(1, room.segments - (prefilling ? 1 : 0)));
  const int32_t for_prompts = room.is_shared && prefilling ? room.others / 2 : 0;
  const auto num_planned = std::min(left, static_cast<int32_t>(decodes.size()));
  // Of a shared step those of tenants below their fair share, which come first: the positions of
  // others are counted.
  const auto drafted =
      std::find_if(decodes.begin(), decodes.begin() + num_planned, [&](auto* sequence) {
        return room.is_shared && !admission_.IsBelowFairShare(*sequence->tenant);
      });
  std::vector<Tokens> drafts =
      drafts_.Drafts(decodes.first(drafted - decodes.begin()), {.num_decodes = num_planned,
                                                                .tokens = room.tokens - num_planned,
                                                                .beside_prompts = prefilling});
  Tokens none;
  for (size_t i = 0; i < decodes.size() && left > 0; ++i) {
    SequenceState& sequence = *decodes[i];
    Tokens& draft = i < drafts.size() ? drafts[i] : none;
    if (!sequence.is_running()) continue;  // preempted for one before it
    // One before it needs what sequences in flight have.
    if (budget_.contended() && !lookahead_.IsReady(sequence)) continue;
    if (MostPositions(sequence, room) <= for_prompts) break;
    if (!budget_.ReserveBlocks(sequence, sequence.length())) continue;
    if (!draft.empty()) budget_.ReserveForDraft(sequence, draft);
    AppendSegment(sequence, 1, draft, step, room);
    --left;
  }
  admission_.ChargeDecodes();
}

// ---- Prefills ----

// Without those that have been preempted meanwhile.
void StepBuilder::OrderPrefills() {
  std::erase_if(prefills_, [this](const SequenceState* sequence) {
    return !sequence->is_running() || !lookahead_.IsReady(*sequence);
  });
  std::stable_sort(prefills_.begin(), prefills_.end(),
                   [](auto* a, auto* b) { return AdmissionQueue::GoesBefore(*a, *b); });
}

// Prompts (and what else is recomputed), in chunks of what the step has left, in serving order. The
// first waiting sequence that finds no room ends admission: none overtakes it, however small.
// Sequences that wait for a sibling's prompt, and tenants that run as many as they may, do not end
// it.
void StepBuilder::PlanPrefills(Step& step, Room& room) {
  OrderPrefills();
  auto running = prefills_.begin();
  bool admits = true;
  admission_.BeginRound();
  while (room.segments > 0 && room.tokens > 0) {
    SequenceState* waiting = admits ? admission_.Next() : nullptr;
    if (running != prefills_.end() &&
        (waiting == nullptr || AdmissionQueue::GoesBefore(**running, *waiting))) {
      AppendPrefill(**running++, step, room);
    } else if (waiting != nullptr) {
      admission_.Pass(*waiting);
      if (!admission_.IsServed(*waiting) || admission_.WaitsForSibling(*waiting) ||
          !table_.HasAdapterSlot(*waiting)) {
        continue;
      }
      admits = PositionsFor(*waiting, step, room) > 0 && budget_.Admit(*waiting);
      if (!admits) continue;
      // A prefix that is in the cache was pending.
      AppendSegment(*waiting, PositionsFor(*waiting, step, room), {}, step, room);
    } else {
      break;
    }
  }
}

// The next chunk of a running sequence, unless it has been preempted for one before it, or has even
// been admitted again since.
void StepBuilder::AppendPrefill(SequenceState& sequence, Step& step, Room& room) {
  const int32_t count = PositionsFor(sequence, step, room);
  const bool ready = count > 0 && sequence.is_running() && sequence.last_step != step.id &&
                     lookahead_.IsReady(sequence);
  if (!ready || !budget_.ReserveBlocks(sequence, sequence.num_planned + count)) return;
  AppendSegment(sequence, count, {}, step, room);
}

// ---- Segments ----

void StepBuilder::AppendSegment(SequenceState& sequence, int32_t num_positions,
                                const Tokens& drafts, Step& step, Room& room) {
  Segment& segment = step.segments.emplace_back();
  if (kv_cache_.has_states()) {
    const int32_t first = sequence.num_planned;
    const int32_t end = first + num_positions + static_cast<int32_t>(drafts.size());
    kv_cache_.ReserveStates(sequence.spec.id, first, end);
    segment.state_slots = kv_cache_.StatesOf(sequence.spec.id, first, end);
  }
  Describe(sequence, num_positions, drafts, segment);
  flights_.Add(sequence, segment, drafts);
  room.tokens -= num_positions + segment.num_drafts;
  if (!admission_.IsBelowFairShare(*sequence.tenant)) room.others -= num_positions;
  --room.segments;
  admission_.Charge(sequence, num_positions, segment.num_drafts);
}

// What the stages compute of the sequence. The drafts come after the positions.
void StepBuilder::Describe(const SequenceState& sequence, int32_t num_positions,
                           const Tokens& drafts, Segment& segment) {
  const int32_t first = sequence.num_planned;
  const int32_t end = first + num_positions;
  const auto num_drafts = static_cast<int32_t>(drafts.size());
  segment.sequence = sequence.spec.id;
  segment.first_position = first;
  if (end > sequence.num_tokens()) {
    segment.tokens.push_back(0);
    segment.chosen_by = sequence.flight.last_promise;
  } else if (num_positions == 1) {
    segment.tokens.push_back(sequence.tokens[first]);
  } else {
    segment.tokens.assign(sequence.tokens.begin() + first, sequence.tokens.begin() + end);
  }
  if (num_drafts > 0) segment.tokens.insert(segment.tokens.end(), drafts.begin(), drafts.end());
  segment.num_drafts = num_drafts;
  segment.sequence_length = sequence.length() + num_drafts;
  segment.second_type_from = sequence.spec.second_type_from;
  segment.source_positions = sequence.spec.source_positions;
  segment.adapter_slot = table_.adapters().SlotOf(sequence.spec.adapter);
  const TableChange table = kv_cache_.TakeTableChange(sequence.spec.id);
  segment.first_block = table.first_block;
  if (!table.blocks.empty()) segment.blocks.assign(table.blocks.begin(), table.blocks.end());
  sequence.AddRowsFor(first, num_positions, segment.rows);
  for (int32_t i = 0; i < num_drafts; ++i) segment.rows.push_back({.offset = num_positions + i});
}

}  // namespace sluice
