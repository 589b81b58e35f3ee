#include "orchestrator/drafts/ngram_drafter.h"

namespace sluice {
namespace {

DraftKind KindAfter(int32_t length) {
  if (length >= 10) return DraftKind::kAfter10;
  if (length >= 6) return DraftKind::kAfter6;
  if (length >= 4) return DraftKind::kAfter4;
  return length == 3 ? DraftKind::kAfter3 : DraftKind::kAfter2;
}

}  // namespace

void NgramDrafter::Propose(absl::Span<const TokenId> tokens, int32_t most,
                           std::vector<DraftToken>& draft) {
  const NgramIndex::Match match = index_.Find(tokens, tokens, 2);
  if (match.length == 0) return;
  const auto begin = draft.size();
  for (int32_t i = 0; i < most; ++i) {
    // What repeats a shorter stretch than it proposes goes on with what it has proposed.
    const size_t from = static_cast<size_t>(match.next) + i;
    const TokenId token =
        from < tokens.size() ? tokens[from] : draft[begin + from - tokens.size()].token;
    draft.push_back({.token = token, .kind = KindAfter(match.length + i)});
  }
}

}  // namespace sluice
