// What is computed beside decodes: drafts, and which of them turned out to be right.
#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/check.h"
#include "orchestrator/scheduler/scheduler.h"

namespace sluice {

// A prompt is under way, or one could be.
bool Scheduler::IsPrefilling() const {
  if (!waiting_.empty() && std::ssize(running_) < MaxRunning()) return true;
  return std::any_of(running_.begin(), running_.end(),
                     [](const auto& entry) { return entry.second->num_pending() > 1; });
}

// With k drafts up to k + 1 tokens are chosen: not more than it may have, nor to a length with other
// keys. Its own last token must be known.
int32_t Scheduler::MostDrafts(const SequenceState& sequence) const {
  if (contended_ || sequence.num_in_flight > 0 || sequence.spec.chosen_outside) return 0;
  const int32_t left = sequence.spec.max_new_tokens - sequence.usage.generated_tokens;
  int32_t most = std::min(sequence.spec.max_drafts, left - 1);
  if (options_.longest_like) {
    const int32_t length = sequence.num_tokens();
    most = std::min(most, options_.longest_like(length) - length);
  }
  return most;
}

// What to compute beside each of the decodes, or nothing where nothing is drafted.
std::vector<Tokens> Scheduler::AskForDrafts(absl::Span<SequenceState* const> decodes,
                                            const DraftRoom& room) {
  std::vector<Tokens> drafts;
  if (options_.drafts == nullptr) return drafts;
  std::vector<DraftCandidate> candidates;
  std::vector<size_t> places;
  for (size_t i = 0; i < decodes.size(); ++i) {
    const SequenceState& sequence = *decodes[i];
    const int32_t most = std::min(MostDrafts(sequence), room.tokens);
    if (most < 1) continue;
    DraftCandidate& candidate = candidates.emplace_back();
    candidate.sequence = sequence.spec.id;
    candidate.tokens = sequence.tokens;
    candidate.most = most;
    places.push_back(i);
  }
  if (candidates.empty()) return drafts;
  options_.drafts->Draft(room, absl::MakeSpan(candidates));
  drafts.resize(decodes.size());
  int32_t left = room.tokens;
  for (size_t i = 0; i < candidates.size(); ++i) {
    Tokens& draft = drafts[places[i]];
    draft = std::move(candidates[i].draft);
    left -= static_cast<int32_t>(draft.size());
    SLUICE_CHECK(std::ssize(draft) <= candidates[i].most && left >= 0);
    const auto& stops = decodes[places[i]]->stop_tokens;
    // A row that chooses a stop token is there without.
    draft.erase(std::find_if(draft.begin(), draft.end(),
                             [&stops](TokenId token) { return stops.contains(token); }),
                draft.end());
  }
  return drafts;
}

// Makes room for a draft out of blocks that nobody else has or waits for.
// REQUIRES: the sequence has a block of its own for the position before.
void Scheduler::EquipDraft(SequenceState& sequence, Tokens& draft) {
  if (contended_) draft.clear();
  const int32_t spare = waiting_.empty() ? kv_cache_.num_available_blocks() : 0;
  const auto end = [&] { return sequence.num_planned + 1 + static_cast<int32_t>(draft.size()); };
  while (!draft.empty() &&
         kv_cache_.BlocksMissing(sequence.spec.id, sequence.num_planned, end()) > spare) {
    draft.pop_back();
  }
  if (!draft.empty()) Reserve(sequence, end());
}

// The leading drafts that are what was chosen. `chosen` begins with the segment's rows.
int32_t Scheduler::NumAccepted(const PlannedSegment& segment, absl::Span<const TokenId> chosen) {
  const Tokens& drafts = segment.drafts;
  const auto wrong = std::mismatch(drafts.begin(), drafts.end(), chosen.begin()).first;
  return static_cast<int32_t>(wrong - drafts.begin());
}

}  // namespace sluice
