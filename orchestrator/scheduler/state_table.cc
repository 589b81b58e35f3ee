#include "orchestrator/scheduler/state_table.h"

#include <utility>

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

SequenceState& StateTable::Add(SequenceSpec spec, const QueuePosition& position, Tenant& tenant) {
  const SequenceId id = spec.id;
  const auto [it, added] = sequences_.try_emplace(id, std::move(spec), position);
  SLUICE_CHECK(added);
  it->second.tenant = &tenant;
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
  ++sequence.tenant->num_running;
  running_.emplace(sequence.position, &sequence);
}

void StateTable::Requeue(SequenceState& sequence) {
  SLUICE_CHECK(sequence.is_running());
  if (sequence.awaits_choice) --num_awaiting_;
  running_.erase(sequence.position);
  --sequence.tenant->num_running;
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
      break;
    case State::kRunning:
      if (sequence.awaits_choice) --num_awaiting_;
      running_.erase(sequence.position);
      --sequence.tenant->num_running;
      break;
    case State::kParked:
      --num_parked_;
      break;
  }
  sequences_.erase(SequenceId{sequence.spec.id});
}

// ---- Integrity ----

absl::Status BrokenSequence(const SequenceState& sequence, absl::string_view what) {
  return absl::InternalError(absl::StrCat("sequence ", sequence.spec.id, " ", what));
}

absl::Status StateTable::CheckIntegrity() const {
  if (absl::Status status = CheckCounts(); !status.ok()) return status;
  return CheckLists();
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

}  // namespace sluice
