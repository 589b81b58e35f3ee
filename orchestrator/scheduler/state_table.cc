#include "orchestrator/scheduler/state_table.h"

#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "kernels/check.h"

namespace sluice {
namespace {

using State = SequenceState::State;

}  // namespace

SequenceState* StateTable::Find(SequenceId id) {
  const auto it = sequences_.find(id);
  return it == sequences_.end() ? nullptr : &it->second;
}

const SequenceState* StateTable::Find(SequenceId id) const {
  const auto it = sequences_.find(id);
  return it == sequences_.end() ? nullptr : &it->second;
}

const SequenceState* StateTable::SiblingOf(const SequenceState& sequence) const {
  if (!sequence.sibling_serial.has_value()) return nullptr;
  const SequenceState* sibling = Find(*sequence.spec.prompt_of);
  const bool same = sibling != nullptr && sibling->position.serial == *sequence.sibling_serial;
  return same ? sibling : nullptr;
}

StateTable::~StateTable() {
  while (!sequences_.empty()) Erase(sequences_.begin()->second);
}

TenantShare* StateTable::ShareOf(absl::string_view tenant) {
  const auto it = shares_.find(tenants_.Find(tenant));
  return it == shares_.end() ? nullptr : &it->second;
}

const TenantShare* StateTable::ShareOf(absl::string_view tenant) const {
  const auto it = shares_.find(tenants_.Find(tenant));
  return it == shares_.end() ? nullptr : &it->second;
}

SequenceState& StateTable::Add(SequenceSpec spec, const QueuePosition& position, double least) {
  const SequenceId id = spec.id;
  Tenant& tenant = tenants_.Enter(spec.tenant, least);
  TenantShare& share = shares_.try_emplace(&tenant).first->second;
  share.tenant = &tenant;
  ++share.num_alive;
  const auto [it, added] = sequences_.try_emplace(id, std::move(spec), position);
  SLUICE_CHECK(added);
  it->second.tenant = &tenant;
  it->second.share = &share;
  return it->second;
}

void StateTable::Enqueue(SequenceState& sequence) {
  SLUICE_CHECK(sequence.state == State::kNew);
  sequence.state = State::kWaiting;
  queue_.Insert(sequence);
}

void StateTable::Run(SequenceState& sequence) {
  SLUICE_CHECK(sequence.state == State::kNew || sequence.state == State::kWaiting);
  if (sequence.state == State::kWaiting) queue_.Erase(sequence);
  sequence.state = State::kRunning;
  adapters_.Acquire(sequence.spec.adapter, sequence.position.serial + 1);
  CountRunning(sequence, 1);
  running_.emplace(sequence.position, &sequence);
}

void StateTable::CountRunning(SequenceState& sequence, int32_t change) {
  sequence.tenant->num_running += change;
  sequence.share->num_running += change;
}

void StateTable::Requeue(SequenceState& sequence) {
  SLUICE_CHECK(sequence.is_running());
  if (sequence.awaits_choice) --num_awaiting_;
  running_.erase(sequence.position);
  adapters_.Release(sequence.spec.adapter);
  CountRunning(sequence, -1);
  if (sequence.paused || sequence.awaits_choice) {
    sequence.state = State::kParked;
    ++num_parked_;
  } else {
    sequence.state = State::kWaiting;
    queue_.Insert(sequence);
  }
}

void StateTable::SetPaused(SequenceState& sequence, bool paused) {
  sequence.paused = paused;
  if (!paused) return Unpark(sequence);
  if (sequence.state != State::kWaiting) return;
  queue_.Erase(sequence);
  adapters_.ForgetWaiter(sequence.position.serial + 1);
  sequence.state = State::kParked;
  ++num_parked_;
}

void StateTable::SetAwaitsChoice(SequenceState& sequence, bool awaits_choice) {
  sequence.awaits_choice = awaits_choice;
  if (sequence.is_running()) num_awaiting_ += awaits_choice ? 1 : -1;
}

void StateTable::Unpark(SequenceState& sequence) {
  if (sequence.state != State::kParked || sequence.paused || sequence.awaits_choice) return;
  --num_parked_;
  sequence.state = State::kWaiting;
  queue_.Insert(sequence);
}

void StateTable::Erase(SequenceState& sequence) {
  switch (sequence.state) {
    case State::kNew:
      break;
    case State::kWaiting:
      queue_.Erase(sequence);
      adapters_.ForgetWaiter(sequence.position.serial + 1);
      break;
    case State::kRunning:
      if (sequence.awaits_choice) --num_awaiting_;
      running_.erase(sequence.position);
      adapters_.Release(sequence.spec.adapter);
      CountRunning(sequence, -1);
      break;
    case State::kParked:
      --num_parked_;
      break;
  }
  Tenant& tenant = *sequence.tenant;
  if (--sequence.share->num_alive == 0) shares_.erase(&tenant);
  sequences_.erase(SequenceId{sequence.spec.id});
  tenants_.Leave(tenant);
}

// ---- Integrity ----

absl::Status BrokenSequence(const SequenceState& sequence, absl::string_view what) {
  return absl::InternalError(absl::StrCat("sequence ", sequence.spec.id, " ", what));
}

absl::Status StateTable::CheckIntegrity() const {
  if (absl::Status status = CheckCounts(); !status.ok()) return status;
  if (absl::Status status = CheckLists(); !status.ok()) return status;
  absl::flat_hash_map<std::string, int32_t> adapters;
  for (const auto& [position, sequence] : running_) {
    if (!sequence->spec.adapter.empty()) ++adapters[sequence->spec.adapter];
  }
  if (absl::Status status = adapters_.CheckIntegrity(adapters); !status.ok()) return status;
  return CheckShares();
}

absl::Status StateTable::CheckCounts() const {
  int32_t num_parked = 0;
  int32_t num_awaiting = 0;
  for (const auto& [id, sequence] : sequences_) {
    num_awaiting += sequence.is_running() && sequence.awaits_choice ? 1 : 0;
    if (sequence.state == State::kNew) return BrokenSequence(sequence, "is in no list");
    const bool is_kept = sequence.paused || sequence.awaits_choice;
    if (!sequence.is_running() && is_kept != (sequence.state == State::kParked)) {
      return BrokenSequence(sequence, is_kept ? "waits and may not run" : "is parked for nothing");
    }
    num_parked += sequence.state == State::kParked ? 1 : 0;
  }
  if (std::ssize(running_) > num_slots_) {
    return absl::InternalError(
        absl::StrCat(running_.size(), " sequences run; the limit is ", num_slots_));
  }
  if (num_parked == num_parked_ && num_awaiting == num_awaiting_) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(num_parked, " sequences are parked and ", num_awaiting,
                                          " running ones await a choice; counted as ", num_parked_,
                                          " and ", num_awaiting_));
}

absl::Status StateTable::CheckLists() const {
  absl::Status first_failure;
  int64_t num_waiting = 0;
  int64_t num_tokens = 0;
  const auto check = [&](const QueuePosition& position, const SequenceState& sequence,
                         State state) {
    num_waiting += state == State::kWaiting ? 1 : 0;
    num_tokens += state == State::kWaiting ? sequence.num_tokens() : 0;
    if (Find(sequence.spec.id) == &sequence && sequence.position == position &&
        sequence.state == state) {
      return;
    }
    first_failure.Update(BrokenSequence(sequence, "is in the wrong list or position"));
  };
  queue_.ForEach([&](const QueuePosition& position, const SequenceState& sequence) {
    check(position, sequence, State::kWaiting);
  });
  for (const auto& [position, sequence] : running_) check(position, *sequence, State::kRunning);
  if (num_waiting != queue_.num_sequences() || num_tokens != queue_.num_tokens() ||
      queue_.num_sequences() + num_parked_ + running_.size() != sequences_.size()) {
    first_failure.Update(absl::InternalError(absl::StrCat(
        sequences_.size(), " sequences are alive, ", num_waiting, " wait with ", num_tokens,
        " tokens, counted as ", queue_.num_sequences(), " with ", queue_.num_tokens(), ", ",
        num_parked_, " are parked, and ", running_.size(), " run")));
  }
  return first_failure;
}

absl::Status StateTable::CheckShares() const {
  absl::flat_hash_map<const TenantShare*, TenantShare> counts;
  for (const auto& [id, sequence] : sequences_) {
    TenantShare& count = counts[sequence.share];
    ++count.num_alive;
    count.num_running += sequence.is_running() ? 1 : 0;
    if (sequence.state != State::kWaiting) continue;
    ++count.num_waiting;
    count.num_waiting_tokens += sequence.num_tokens();
  }
  for (const auto& [tenant, share] : shares_) {
    const TenantShare& count = counts[&share];
    if (share.num_alive == count.num_alive && share.num_running == count.num_running &&
        share.num_waiting == count.num_waiting &&
        share.num_waiting_tokens == count.num_waiting_tokens && share.uncharged == 0 &&
        share.num_alive <= tenant->num_alive && share.num_running <= tenant->num_running &&
        share.num_waiting <= tenant->num_waiting) {
      continue;
    }
    return absl::InternalError(
        absl::StrCat("tenant \"", tenant->name, "\" has ", count.num_alive, " sequences, ",
                     count.num_running, " running, ", count.num_waiting, " waiting with ",
                     count.num_waiting_tokens, " tokens; counted as ", share.num_alive, ", ",
                     share.num_running, " running, ", share.num_waiting, " waiting with ",
                     share.num_waiting_tokens, ", and ", share.uncharged, " tokens not charged"));
  }
  if (counts.size() == shares_.size()) return tenants_.CheckIntegrity();
  return absl::InternalError("a sequence has no share of its tenant");
}

}  // namespace sluice
