#include "orchestrator/scheduler/block_budget.h"

#include <algorithm>
#include <limits>

#include "absl/container/flat_hash_map.h"
#include "kernels/check.h"

namespace sluice {

// A tenant that runs as many sequences as it may would wait for itself.
void BlockBudget::BeginStep() {
  contended_ = false;
  if (table_.num_awaiting() == 0) return;
  std::vector<SequenceState*> awaiting;
  for (const auto& [position, sequence] : table_.running()) {
    if (sequence->awaits_choice) awaiting.push_back(sequence);
  }
  for (SequenceState* sequence : awaiting) {
    const Tenant& tenant = *sequence->tenant;
    if (sequence->share->num_waiting == 0 ||
        tenant.num_running < tenant.policy.max_running_sequences) {
      continue;
    }
    Preempt(*sequence);
  }
}

// ---- Reserving ----

bool BlockBudget::Admit(SequenceState& sequence) {
  if (!MayFindRoom(sequence)) return false;
  const CachedPrefix prefix = TakePrefix(sequence);
  const int32_t first = prefix.num_positions;
  const QueuePosition last_of_its_priority = {
      .negated_priority = sequence.position.negated_priority,
      .arrival = std::numeric_limits<uint64_t>::max(),
      .serial = std::numeric_limits<uint64_t>::max()};
  const BlockDemand demand = {.sequence = sequence.spec.id,
                              .first = first,
                              .end = sequence.num_tokens(),
                              .slots = 1,
                              .displacing = admission_.MayDisplace(sequence) ? &sequence : nullptr};
  if (!MakeRoom(demand, last_of_its_priority)) {
    kv_cache_.Release(sequence.spec.id);
    // What was lacking may have been a slot, to run in or for a state.
    const bool lacked_blocks = table_.has_free_slot() && !kv_cache_.has_states();
    sequence.refused_with_blocks = lacked_blocks ? kv_cache_.num_available_blocks() : -1;
    return false;
  }
  sequence.num_computed = sequence.num_planned = first;
  // What others computed of its first block is in a copy, or in a block that was one.
  if (first % kv_cache_.block_size() != 0) sequence.copied_in = flights_.next_id();
  Reserve(sequence, sequence.num_tokens());
  CountPrefix(sequence, prefix);
  sequence.refused_with_blocks = -1;
  if (sequence.last_step == 0) ++num_started_;
  table_.Run(sequence);
  return true;
}

// Spares looking up its tokens again and again while nothing has become better.
bool BlockBudget::MayFindRoom(const SequenceState& sequence) const {
  if (table_.running().empty() || table_.num_awaiting() > 0) return true;
  if (IsUrgent(sequence)) return true;
  return table_.has_free_slot() && kv_cache_.num_available_blocks() > sequence.refused_with_blocks;
}

bool BlockBudget::IsUrgent(const SequenceState& sequence) const {
  const SequenceList& running = table_.running();
  if (running.empty()) return false;
  if (sequence.position.negated_priority < running.rbegin()->first.negated_priority) return true;
  const bool is_full =
      !table_.has_free_slot() ||
      kv_cache_.num_available_blocks() < kv_cache_.BlocksFor(sequence.num_tokens()) ||
      kv_cache_.num_available_states() <
          kv_cache_.StatesMissing(sequence.spec.id, 0, sequence.num_tokens());
  return is_full && admission_.MayDisplace(sequence);
}

// Gives a waiting sequence the blocks in which others have computed its first tokens.
BlockBudget::CachedPrefix BlockBudget::TakePrefix(SequenceState& sequence) {
  const SequenceId id = sequence.spec.id;
  // The last position is computed in any case, because it chooses the next token.
  int32_t most = sequence.num_tokens() - 1;
  if (const SequenceState* sibling = table_.SiblingOf(sequence);
      sibling != nullptr && options_.ShareKeys(sibling->num_tokens(), sequence.num_tokens()) &&
      sibling->num_computed >= sequence.num_prompt()) {
    most = std::min(most, sequence.num_prompt());
    return {.num_positions = kv_cache_.Fork(sibling->spec.id, id, most), .from_sibling = true};
  }
  if (!sequence.spec.use_prefix_cache) return {};
  // Positions that still owe a score row are computed.
  if (sequence.spec.score_prompt && sequence.num_scored < sequence.num_prompt() - 1) {
    most = std::min(most, sequence.num_scored);
  }
  const PrefixDomain domain =
      options_.DomainOf(sequence.spec.cache_salt, sequence.spec.adapter, sequence.num_tokens());
  // Of a source all or nothing is taken over.
  const int32_t filled = FilledSource(sequence.spec.source_positions);
  if (filled > 0 && kv_cache_.CountKnown(domain, sequence.tokens) < filled) most = 0;
  return {.num_positions = kv_cache_.Begin(id, domain, sequence.tokens, most)};
}

void BlockBudget::CountPrefix(SequenceState& sequence, const CachedPrefix& prefix) {
  SequenceUsage& usage = sequence.usage;
  if (prefix.from_sibling) {
    usage.shared_positions += prefix.num_positions;
    return;
  }
  usage.cached_positions += prefix.num_positions;
  if (sequence.last_step != 0) return;
  usage.cached_prompt_tokens = std::min(prefix.num_positions, sequence.num_prompt());
}

int32_t BlockBudget::NumToCompute(const SequenceSpec& spec) const {
  const auto num_tokens = static_cast<int32_t>(spec.prompt.size() + spec.resumed_tokens.size());
  if (!spec.use_prefix_cache || spec.score_prompt) return num_tokens;
  const PrefixDomain domain = options_.DomainOf(spec.cache_salt, spec.adapter, num_tokens);
  return num_tokens - kv_cache_.CountKnown(domain, spec.prompt);
}

bool BlockBudget::ReserveBlocks(SequenceState& sequence, int32_t num_positions) {
  const SequenceId id = sequence.spec.id;
  if (kv_cache_.IsReserved(id, sequence.num_planned, num_positions)) return true;
  const BlockDemand demand = {.sequence = id, .first = sequence.num_planned, .end = num_positions};
  if (!MakeRoom(demand, sequence.position)) return false;
  Reserve(sequence, num_positions);
  return true;
}

void BlockBudget::ReserveForDraft(SequenceState& sequence, Tokens& draft) {
  if (contended_) draft.clear();
  const int32_t spare = table_.queue().empty() ? kv_cache_.num_available_blocks() : 0;
  const auto end = [&] { return sequence.num_planned + 1 + static_cast<int32_t>(draft.size()); };
  while (!draft.empty() &&
         (kv_cache_.BlocksMissing(sequence.spec.id, sequence.num_planned, end()) > spare ||
          kv_cache_.StatesMissing(sequence.spec.id, sequence.num_planned, end()) >
              kv_cache_.num_available_states())) {
    draft.pop_back();
  }
  if (!draft.empty()) Reserve(sequence, end());
}

// REQUIRES: there is room.
void BlockBudget::Reserve(SequenceState& sequence, int32_t num_positions) {
  const absl::StatusOr<Reservation> reservation =
      kv_cache_.Reserve(sequence.spec.id, sequence.num_planned, num_positions);
  SLUICE_CHECK(reservation.ok());
  sequence.usage.evicted_blocks += reservation->evicted_blocks;
  if (reservation->state_copy.has_value()) state_copies_.push_back(*reservation->state_copy);
  if (!reservation->copy.has_value()) return;
  copies_.push_back(*reservation->copy);
  sequence.copied_in = flights_.next_id();
  ++sequence.usage.copied_blocks;
}

bool BlockBudget::RunFork(const SequenceState& from, SequenceState& to, int32_t num_positions) {
  const Tenant& tenant = *from.tenant;
  if (num_positions < 1 || !table_.has_free_slot() ||
      tenant.num_running >= tenant.policy.max_running_sequences || !table_.HasAdapterSlot(to) ||
      !options_.ShareKeys(from.num_tokens(), to.num_tokens())) {
    return false;
  }
  num_positions = kv_cache_.Fork(from.spec.id, to.spec.id, num_positions);
  if (num_positions == 0) {
    kv_cache_.Release(to.spec.id);
    return false;
  }
  to.num_computed = to.num_planned = num_positions;
  to.usage.shared_positions = num_positions;
  to.copied_in = from.copied_in;
  table_.Run(to);
  return true;
}

// ---- Preempting ----

bool BlockBudget::IsMet(const BlockDemand& demand, const FreedRoom& freed) const {
  return kv_cache_.num_available_blocks() + freed.blocks >=
             kv_cache_.BlocksMissing(demand.sequence, demand.first, demand.end) &&
         kv_cache_.num_available_states() + freed.states >=
             kv_cache_.StatesMissing(demand.sequence, demand.first, demand.end) &&
         std::ssize(table_.running()) + demand.slots <= table_.num_slots() + freed.slots;
}

// True once there are blocks and slots for `demand`, if need be by preempting running sequences,
// the last in serving order first. Preempts nothing where all that may be preempted would not do.
bool BlockBudget::MakeRoom(const BlockDemand& demand, const QueuePosition& below) {
  if (IsMet(demand, {})) return true;
  bool others_in_flight = false;
  const std::vector<SequenceState*> victims = Victims(demand, below, others_in_flight);
  std::vector<SequenceId> ids;
  ids.reserve(victims.size());
  for (const SequenceState* victim : victims) ids.push_back(victim->spec.id);
  if (!IsMet(demand, {.blocks = kv_cache_.BlocksFreedBy(ids, demand.sequence, demand.first),
                      .states = kv_cache_.StatesFreedBy(ids, demand.sequence, demand.first),
                      .slots = std::ssize(ids)})) {
    contended_ = contended_ || others_in_flight;
    return false;
  }
  for (SequenceState* victim : victims) {
    if (IsMet(demand, {})) break;
    Preempt(*victim);
  }
  return true;
}

// Running sequences that may be preempted, the last in serving order first: those behind `below`,
// those that await a choice and are of no higher priority, and of each tenant with more than its
// share of the slots as many as it has more. None that is in flight; whether there are such.
std::vector<SequenceState*> BlockBudget::Victims(const BlockDemand& demand,
                                                 const QueuePosition& below,
                                                 bool& others_in_flight) const {
  std::vector<SequenceState*> victims;
  absl::flat_hash_map<const Tenant*, int32_t> displaced;
  const auto may_be_displaced = [&](const SequenceState& sequence) {
    return demand.displacing != nullptr && sequence.tenant != demand.displacing->tenant &&
           admission_.HasExtraSlot(sequence, displaced[sequence.tenant]);
  };
  const SequenceList& running = table_.running();
  for (auto it = running.rbegin(); it != running.rend(); ++it) {
    SequenceState& sequence = *it->second;
    const bool is_behind = below < it->first;
    if (!is_behind && demand.displacing == nullptr && table_.num_awaiting() == 0) break;
    if (it->first.negated_priority < below.negated_priority) break;
    const bool in_flight = sequence.flight.num_steps > 0;
    if (in_flight && others_in_flight) continue;  // one such is enough to know
    if (!is_behind && !sequence.awaits_choice && !may_be_displaced(sequence)) continue;
    if (in_flight) {
      others_in_flight = true;
      continue;
    }
    ++displaced[sequence.tenant];
    victims.push_back(&sequence);
  }
  return victims;
}

void BlockBudget::Preempt(SequenceState& sequence) {
  ++sequence.usage.preemptions;
  ++num_preemptions_;
  preempted_.push_back(sequence.spec.id);
  ReleaseAndRequeue(sequence, RecomputeReason::kPreemption);
}

void BlockBudget::ReleaseAndRequeue(SequenceState& sequence, RecomputeReason reason) {
  kv_cache_.Release(sequence.spec.id);
  sequence.num_once_computed = std::max(sequence.num_once_computed, sequence.num_computed);
  sequence.recompute_reason = reason;
  sequence.num_computed = 0;
  flights_.Forget(sequence);
  table_.Requeue(sequence);
}

}  // namespace sluice
