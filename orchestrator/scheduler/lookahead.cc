#include "orchestrator/scheduler/lookahead.h"

#include <algorithm>

namespace sluice {

// A sequence is either planned ahead of its tokens or, once they are known, drafted on. Where
// drafts win more, no step goes ahead: the sequences that are drafted on would miss it. Beside
// prompts nothing is drafted, and nothing waits for a draft.
bool Lookahead::BeginStep() {
  if (!HasRoomForAStep(options_.steps_ahead)) return false;
  const bool drafts_win = options_.drafts != nullptr &&
                          options_.drafts->AllWait(static_cast<int32_t>(table_.running().size())) &&
                          !IsPrefilling();
  may_hold_ = drafts_win;
  steps_ahead_ = drafts_win ? 0 : options_.steps_ahead;
  return HasRoomForAStep(steps_ahead_);
}

// A prompt is in progress, or one could begin.
bool Lookahead::IsPrefilling() const {
  if (!table_.queue().empty() && table_.has_free_slot()) return true;
  return std::any_of(table_.running().begin(), table_.running().end(),
                     [](const auto& entry) { return entry.second->num_pending() > 1; });
}

// A prompt's chunks follow each other in as many steps as there are; a token is chosen after the
// one before it, so that more than one step ahead would only queue. A sequence does not go ahead to
// where it is certain to have ended, nor to a length with other keys: what is known then decides.
bool Lookahead::MayGoAhead(const SequenceState& sequence) const {
  const Flight& flight = sequence.flight;
  if (budget_.contended() || steps_ahead_ == 0 || flight.num_drafts > 0) return false;
  if (sequence.num_pending() > 1) return true;
  if (flight.num_steps > steps_ahead_ || sequence.was_deferred) return false;
  if (sequence.spec.max_drafts > 0 && options_.drafts != nullptr &&
      options_.drafts->Waits(sequence.spec.id)) {
    return false;
  }
  return flight.num_promised == 0 ||
         (sequence.usage.generated_tokens + flight.num_promised < sequence.spec.max_new_tokens &&
          options_.ShareKeys(sequence.length(), sequence.num_tokens()));
}

bool Lookahead::IsHeldForDraft(const SequenceState& sequence) const {
  return sequence.num_pending() == 1 && sequence.spec.max_drafts > 0 &&
         options_.drafts->Holds(sequence.spec.id, sequence.num_tokens());
}

}  // namespace sluice
