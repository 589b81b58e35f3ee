#include "orchestrator/drafts/expected_drafter.h"

#include <algorithm>
#include <iterator>

namespace sluice {
namespace {

// So many tokens say where in the expected text the sequence is.
constexpr int32_t kFewestAlike = 3;
// So many in a row must have come otherwise before another place is looked for: fewer are words that were
// changed.
constexpr ptrdiff_t kMostOtherwise = 4;

}  // namespace

bool ExpectedDrafter::IsInPlace(absl::Span<const TokenId> generated) const {
  const ptrdiff_t size = std::ssize(generated);
  for (ptrdiff_t i = size - std::min(size, kMostOtherwise); i < size; ++i) {
    const ptrdiff_t place = i + ahead_;
    if (place < 0) return true;
    if (place < std::ssize(*expected_) && (*expected_)[place] == generated[i]) return true;
  }
  return size < kMostOtherwise;
}

void ExpectedDrafter::Propose(absl::Span<const TokenId> tokens, int32_t most,
                              std::vector<DraftToken>& draft) {
  const absl::Span<const TokenId> generated = tokens.subspan(num_prompt_);
  if (!IsInPlace(generated)) {
    const NgramIndex::Match match = index_.Find(*expected_, generated, kFewestAlike);
    if (match.length > 0) ahead_ = match.next - std::ssize(generated);
  }
  const ptrdiff_t first = std::ssize(generated) + ahead_;
  const ptrdiff_t end = std::min<ptrdiff_t>(std::ssize(*expected_), first + most);
  for (ptrdiff_t i = std::max<ptrdiff_t>(first, 0); i < end; ++i) {
    draft.push_back({.token = (*expected_)[i], .kind = DraftKind::kExpected});
  }
}

}  // namespace sluice
