#include "orchestrator/scheduler/draft_planner.h"

#include <algorithm>
#include <utility>

#include "kernels/check.h"

namespace sluice {

// With k drafts up to k + 1 tokens are chosen: not more than the sequence may have, nor to a length
// with other keys. Its own last token must be known.
int32_t DraftPlanner::MostDrafts(const SequenceState& sequence) const {
  if (budget_.contended() || sequence.flight.num_steps > 0 || sequence.spec.externally_sampled) {
    return 0;
  }
  const int32_t left = sequence.spec.max_new_tokens - sequence.usage.generated_tokens;
  int32_t most = std::min(sequence.spec.max_drafts, left - 1);
  if (options_.rope_length_class) {
    const int32_t length = sequence.num_tokens();
    most = std::min(most, options_.rope_length_class(length) - length);
  }
  return most;
}

std::vector<Tokens> DraftPlanner::Drafts(absl::Span<SequenceState* const> decodes,
                                         const DraftRoom& room) const {
  std::vector<Tokens> drafts;
  if (options_.drafts == nullptr) return drafts;
  std::vector<DraftCandidate> candidates;
  std::vector<size_t> indexes;  // of the candidates, among the decodes
  for (size_t i = 0; i < decodes.size(); ++i) {
    const SequenceState& sequence = *decodes[i];
    const int32_t most = std::min(MostDrafts(sequence), room.tokens);
    if (most < 1) continue;
    DraftCandidate& candidate = candidates.emplace_back();
    candidate.sequence = sequence.spec.id;
    candidate.tokens = sequence.tokens;
    candidate.most = most;
    indexes.push_back(i);
  }
  if (candidates.empty()) return drafts;
  options_.drafts->Draft(room, absl::MakeSpan(candidates));
  drafts.resize(decodes.size());
  int32_t left = room.tokens;
  for (size_t i = 0; i < candidates.size(); ++i) {
    Tokens& draft = drafts[indexes[i]];
    draft = std::move(candidates[i].draft);
    left -= static_cast<int32_t>(draft.size());
    SLUICE_CHECK(std::ssize(draft) <= candidates[i].most && left >= 0);
    const auto& stops = decodes[indexes[i]]->stop_tokens;
    // A row that chooses a stop token is computed without the draft of it.
    draft.erase(std::find_if(draft.begin(), draft.end(),
                             [&stops](TokenId token) { return stops.contains(token); }),
                draft.end());
  }
  return drafts;
}

}  // namespace sluice
