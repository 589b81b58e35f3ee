#include "orchestrator/drafts/shared_ngrams.h"

#include <algorithm>

namespace sluice {
namespace {

constexpr TokenId kSeparator = -1;
// Of one sequence, so that adding it takes no time to speak of.
constexpr size_t kMostOfSequence = NgramIndex::kMostAtOnce / 2;
// At most so much text; the older half of it goes at once.
constexpr size_t kMostText = NgramIndex::kWindow;
constexpr int32_t kLeastMatch = 3;

DraftKind SharedKindAfter(int32_t length) {
  if (length >= 10) return DraftKind::kSharedAfter10;
  if (length >= 6) return DraftKind::kSharedAfter6;
  return length >= 4 ? DraftKind::kSharedAfter4 : DraftKind::kSharedAfter3;
}

}  // namespace

void SharedText::Add(absl::Span<const TokenId> tokens) {
  const size_t count = std::min(tokens.size(), kMostOfSequence);
  if (text_.size() + count + 1 > kMostText) {
    text_.erase(text_.begin(), text_.begin() + static_cast<ptrdiff_t>(text_.size() / 2));
    index_ = NgramIndex();
    for (size_t i = 0; i < kMostText; i += NgramIndex::kMostAtOnce) index_.Learn(text_);
  }
  text_.insert(text_.end(), tokens.end() - static_cast<ptrdiff_t>(count), tokens.end());
  text_.push_back(kSeparator);
  index_.Learn(text_);
}

void SharedText::Propose(absl::Span<const TokenId> tokens, int32_t most,
                         std::vector<DraftToken>& draft) const {
  const NgramIndex::Match match = index_.Find(text_, tokens, kLeastMatch);
  if (match.length == 0) return;
  for (int32_t i = 0; i < most; ++i) {
    const TokenId token = text_[match.next + i];  // ends with a separator
    if (token == kSeparator) return;
    draft.push_back({.token = token, .kind = SharedKindAfter(match.length + i)});
  }
}

std::shared_ptr<SharedText> SharedNgrams::TextOf(const std::string& tenant,
                                                 const std::string& salt) {
  const Key key(tenant, salt);
  if (const auto found = by_key_.find(key); found != by_key_.end()) {
    texts_.splice(texts_.begin(), texts_, found->second);
    return texts_.front().second;
  }
  if (texts_.size() == kMostTexts) {
    by_key_.erase(texts_.back().first);
    texts_.pop_back();
  }
  texts_.emplace_front(key, std::make_shared<SharedText>());
  by_key_[key] = texts_.begin();
  return texts_.front().second;
}

}  // namespace sluice
