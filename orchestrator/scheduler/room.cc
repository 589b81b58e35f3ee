// Who holds blocks, and who gives them up.
#include <algorithm>
#include <limits>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "kernels/check.h"
#include "orchestrator/scheduler/scheduler.h"

namespace sluice {

// Only for a sibling ahead of it in line, because that one is sure to be computed without it.
bool Scheduler::HeldBack(const SequenceState& sequence) const {
  const SequenceState* sibling = SharesWith(sequence);
  return sibling != nullptr && !sibling->paused && !sibling->sits_out && !sibling->awaits_choice &&
         sibling->place < sequence.place && sibling->num_computed < sequence.num_prompt();
}

const SequenceState* Scheduler::SharesWith(const SequenceState& sequence) const {
  if (!sequence.sibling_serial.has_value()) return nullptr;
  const SequenceState* sibling = Find(*sequence.spec.prompt_of);
  const bool same = sibling != nullptr && sibling->place.serial == *sequence.sibling_serial;
  return same && AreAlike(sibling->num_tokens(), sequence.num_tokens()) ? sibling : nullptr;
}

bool Scheduler::AreAlike(int32_t length, int32_t other_length) const {
  return !options_.longest_like ||
         options_.longest_like(length) == options_.longest_like(other_length);
}

PrefixDomain Scheduler::DomainOf(const SequenceState& sequence) const {
  PrefixDomain domain = {.salt = sequence.spec.cache_salt};
  if (options_.longest_like) domain.length_like = options_.longest_like(sequence.num_tokens());
  return domain;
}

// From waiting to running, with blocks for every token it has: a prompt under way never runs out
// of blocks. Only sequences of lower priority make room for it, and those of tenants that have more
// than their part of the places while its own has less.
bool Scheduler::Admit(SequenceState& sequence) {
  if (!MayFindRoom(sequence)) return false;
  const SequenceId id = sequence.spec.id;
  const Beginning beginning = BeginWithOthers(sequence);
  const int32_t begin = beginning.num_positions;
  const PlaceInLine last_of_its_priority = {.negated_priority = sequence.place.negated_priority,
                                            .arrival = std::numeric_limits<uint64_t>::max(),
                                            .serial = std::numeric_limits<uint64_t>::max()};
  const Need need = {.sequence = id,
                     .first = begin,
                     .end = sequence.num_tokens(),
                     .places = 1,
                     .displacing = MayDisplace(sequence) ? &sequence : nullptr};
  if (!MakeRoom(need, last_of_its_priority)) {
    kv_cache_.Release(id);
    // What was lacking may have been a place.
    const bool had_place = std::ssize(running_) < MaxRunning();
    sequence.refused_with_blocks = had_place ? kv_cache_.num_available_blocks() : -1;
    return false;
  }
  sequence.num_computed = sequence.num_planned = begin;
  // What others computed of its first block is in a copy, or in a block that was one.
  if (begin % kv_cache_.block_size() != 0) sequence.copied_in = last_step_ + 1;
  Reserve(sequence, sequence.num_tokens());
  CountBeginning(sequence, beginning);
  sequence.refused_with_blocks = -1;
  waiting_.Erase(sequence);
  if (sequence.last_step == 0) ++num_started_;
  StartRunning(sequence);
  return true;
}

void Scheduler::StartRunning(SequenceState& sequence) {
  sequence.running = true;
  ++sequence.tenant->num_running;
  running_.emplace(sequence.place, &sequence);
}

// It need not wait for a place: a running sequence of lower priority, or of a tenant that has more
// than its part, gives up its own.
bool Scheduler::IsUrgent(const SequenceState& sequence) const {
  if (running_.empty()) return false;
  if (sequence.place.negated_priority < running_.rbegin()->first.negated_priority) return true;
  const bool is_full =
      std::ssize(running_) >= MaxRunning() ||
      kv_cache_.num_available_blocks() < kv_cache_.BlocksFor(sequence.num_tokens());
  return is_full && MayDisplace(sequence);
}

// Its tenant has clearly less than its part of the places, and another has more. What is displaced is
// computed again and holds up the steps ahead: where little is missing, the next place that somebody
// leaves makes up for it.
bool Scheduler::MayDisplace(const SequenceState& sequence) const {
  constexpr int32_t kPartToWaitFor = 8;
  const Tenant& tenant = *sequence.tenant;
  if (tenants_.num_active() < 2) return false;
  const int32_t fair = tenants_.FairPlaces(tenant, MaxRunning());
  if (tenant.num_running >= fair - fair / kPartToWaitFor) return false;
  return std::any_of(running_.begin(), running_.end(), [&](const auto& entry) {
    const SequenceState& other = *entry.second;
    return other.tenant != &tenant &&
           other.place.negated_priority == sequence.place.negated_priority &&
           other.tenant->num_running > tenants_.FairPlaces(*other.tenant, MaxRunning());
  });
}

// Spares looking up its tokens again and again while nothing has become better.
bool Scheduler::MayFindRoom(const SequenceState& sequence) const {
  if (running_.empty() || num_awaiting_ > 0) return true;
  if (IsUrgent(sequence)) return true;
  return std::ssize(running_) < MaxRunning() &&
         kv_cache_.num_available_blocks() > sequence.refused_with_blocks;
}

// Gives a waiting sequence the blocks in which others have computed its first tokens.
Scheduler::Beginning Scheduler::BeginWithOthers(SequenceState& sequence) {
  const SequenceId id = sequence.spec.id;
  // Its last position is computed in any case, because it chooses the next token.
  int32_t most = sequence.num_tokens() - 1;
  if (const SequenceState* sibling = SharesWith(sequence);
      sibling != nullptr && sibling->num_computed >= sequence.num_prompt()) {
    most = std::min(most, sequence.num_prompt());
    kv_cache_.Fork(sibling->spec.id, id, most);
    return {.num_positions = most, .from_sibling = true};
  }
  if (!sequence.spec.use_prefix_cache) return {};
  // What has a row to score yet is computed.
  if (sequence.spec.score_prompt && sequence.num_scored < sequence.num_prompt() - 1) {
    most = std::min(most, sequence.num_scored);
  }
  return {.num_positions = kv_cache_.Begin(id, DomainOf(sequence), sequence.tokens, most)};
}

int32_t Scheduler::NumToCompute(const SequenceSpec& spec) const {
  const auto num_tokens = static_cast<int32_t>(spec.prompt.size() + spec.resumed_tokens.size());
  if (!spec.use_prefix_cache || spec.score_prompt) return num_tokens;
  PrefixDomain domain = {.salt = spec.cache_salt};
  if (options_.longest_like) domain.length_like = options_.longest_like(num_tokens);
  return num_tokens - kv_cache_.CountKnown(domain, spec.prompt);
}

void Scheduler::CountBeginning(SequenceState& sequence, const Beginning& beginning) {
  SequenceUsage& usage = sequence.usage;
  if (beginning.from_sibling) {
    usage.shared_positions += beginning.num_positions;
    return;
  }
  usage.cached_positions += beginning.num_positions;
  if (sequence.last_step != 0) return;
  usage.cached_prompt_tokens = std::min(beginning.num_positions, sequence.num_prompt());
}

// Gives a running sequence blocks of its own to write its positions up to `num_positions` into.
bool Scheduler::Equip(SequenceState& sequence, int32_t num_positions) {
  if (kv_cache_.IsReserved(sequence.spec.id, sequence.num_planned, num_positions)) return true;
  const Need need = {
      .sequence = sequence.spec.id, .first = sequence.num_planned, .end = num_positions};
  if (!MakeRoom(need, sequence.place)) return false;
  Reserve(sequence, num_positions);
  return true;
}

// REQUIRES: there is room.
void Scheduler::Reserve(SequenceState& sequence, int32_t num_positions) {
  const absl::StatusOr<Reservation> reservation =
      kv_cache_.Reserve(sequence.spec.id, sequence.num_planned, num_positions);
  SLUICE_CHECK(reservation.ok());
  sequence.usage.evicted_blocks += reservation->evicted_blocks;
  if (!reservation->copy.has_value()) return;
  copies_.push_back(*reservation->copy);
  sequence.copied_in = last_step_ + 1;
  ++sequence.usage.copied_blocks;
}

// True once there are blocks and places for `need`, if need be by preempting running sequences, the
// last in line first. Preempts nobody when all that could be would not do.
bool Scheduler::MakeRoom(const Need& need, const PlaceInLine& below) {
  const auto enough = [&](int32_t freed_blocks, size_t freed_places) {
    return kv_cache_.num_available_blocks() + freed_blocks >=
               kv_cache_.BlocksMissing(need.sequence, need.first, need.end) &&
           std::ssize(running_) + need.places <= MaxRunning() + static_cast<int64_t>(freed_places);
  };
  if (enough(0, 0)) return true;
  bool others_in_flight = false;
  const std::vector<SequenceState*> victims = Victims(need, below, others_in_flight);
  std::vector<SequenceId> ids;
  ids.reserve(victims.size());
  for (const SequenceState* victim : victims) ids.push_back(victim->spec.id);
  if (!enough(kv_cache_.BlocksFreedBy(ids, need.sequence, need.first), ids.size())) {
    contended_ = contended_ || others_in_flight;
    return false;
  }
  for (SequenceState* victim : victims) {
    if (enough(0, 0)) break;
    Preempt(*victim);
  }
  return true;
}

// Running sequences that may be preempted, the last in line first: those behind `below`, those that
// await a choice and are of no higher priority, and of each tenant with more than its part of the
// places, so many as it has more. None that is in flight; whether there are such.
std::vector<SequenceState*> Scheduler::Victims(const Need& need, const PlaceInLine& below,
                                               bool& others_in_flight) const {
  std::vector<SequenceState*> victims;
  absl::flat_hash_map<const Tenant*, int32_t> displaced;
  for (auto it = running_.rbegin(); it != running_.rend(); ++it) {
    SequenceState& sequence = *it->second;
    const bool is_behind = below < it->first;
    if (!is_behind && need.displacing == nullptr && num_awaiting_ == 0) break;
    if (it->first.negated_priority < below.negated_priority) break;
    if (sequence.num_in_flight > 0 && others_in_flight) continue;  // one such is enough to know
    if (!is_behind && !sequence.awaits_choice &&
        !MayBeDisplaced(sequence, need, displaced[sequence.tenant])) {
      continue;
    }
    if (sequence.num_in_flight > 0) {
      others_in_flight = true;
      continue;
    }
    ++displaced[sequence.tenant];
    victims.push_back(&sequence);
  }
  return victims;
}

// Its tenant has more than its part of the places, beyond those that it gives up already.
bool Scheduler::MayBeDisplaced(const SequenceState& sequence, const Need& need,
                               int32_t num_displaced) const {
  if (need.displacing == nullptr || sequence.tenant == need.displacing->tenant) return false;
  const int32_t fair = tenants_.FairPlaces(*sequence.tenant, MaxRunning());
  return sequence.tenant->num_running - num_displaced > fair;
}

int64_t Scheduler::MaxRunning() const {
  return int64_t{options_.max_sequences_per_step} * options_.max_inflight_steps;
}

void Scheduler::Preempt(SequenceState& sequence) {
  ++sequence.usage.preemptions;
  ++num_preemptions_;
  preempted_.push_back(sequence.spec.id);
  ThrowBack(sequence, ThrownBackBy::kPreemption);
}

void Scheduler::ThrowBack(SequenceState& sequence, ThrownBackBy cause) {
  kv_cache_.Release(sequence.spec.id);
  if (sequence.awaits_choice) --num_awaiting_;
  sequence.num_once_computed = std::max(sequence.num_once_computed, sequence.num_computed);
  sequence.thrown_back_by = cause;
  sequence.num_computed = 0;
  ForgetFlight(sequence);
  sequence.running = false;
  running_.erase(sequence.place);
  --sequence.tenant->num_running;
  if (sequence.parked()) {
    ++num_parked_;
  } else {
    waiting_.Insert(sequence);
  }
}

}  // namespace sluice
