// Sequences whose tokens are chosen outside. Between a row and the choice that it leads to such a
// sequence has nothing to compute. It keeps its blocks, because the choice is near and forks share
// them, but it must not stand in the way: the choice may wait for others of its request that need
// the blocks, or the place, that it has.
#include <vector>

#include "absl/strings/str_cat.h"
#include "orchestrator/scheduler/scheduler.h"

namespace sluice {

absl::Status Scheduler::Append(SequenceId id, TokenId token) {
  SequenceState* sequence = Find(id);
  if (sequence == nullptr) {
    return absl::NotFoundError(absl::StrCat("sequence ", id, " is not alive"));
  }
  if (!sequence->awaits_choice) {
    return absl::FailedPreconditionError(absl::StrCat("sequence ", id, " awaits no choice"));
  }
  if (sequence->stop_tokens.contains(token) ||
      sequence->usage.generated_tokens + 1 >= sequence->spec.max_new_tokens) {
    return absl::InvalidArgumentError(absl::StrCat("token ", token, " ends sequence ", id,
                                                   ", which has ", sequence->usage.generated_tokens,
                                                   " of ", sequence->spec.max_new_tokens));
  }
  const bool was_parked = sequence->parked();
  EndAwaiting(*sequence);
  sequence->tokens.push_back(token);
  ++sequence->usage.generated_tokens;
  if (sequence->running && !AreAlike(sequence->num_tokens(), sequence->num_tokens() - 1)) {
    ThrowBack(*sequence, ThrownBackBy::kGrowth);
  } else if (was_parked && !sequence->parked()) {
    --num_parked_;
    waiting_.Insert(*sequence);
  }
  return absl::OkStatus();
}

void Scheduler::AwaitChoice(SequenceState& sequence) {
  sequence.awaits_choice = true;
  ++num_awaiting_;
}

void Scheduler::EndAwaiting(SequenceState& sequence) {
  sequence.awaits_choice = false;
  if (sequence.running) --num_awaiting_;
}

// A tenant that runs as many sequences as it may would wait for itself.
void Scheduler::GiveUpPlacesOfAwaiting() {
  if (num_awaiting_ == 0) return;
  std::vector<SequenceState*> awaiting;
  for (const auto& [place, sequence] : running_) {
    if (sequence->awaits_choice) awaiting.push_back(sequence);
  }
  for (SequenceState* sequence : awaiting) {
    const Tenant& tenant = *sequence->tenant;
    if (tenant.num_waiting == 0 || tenant.num_running < tenant.policy.max_running_sequences) {
      continue;
    }
    Preempt(*sequence);
  }
}

}  // namespace sluice
