#include "orchestrator/draft_model/followed_text.h"

#include <cstddef>

#include "kernels/check.h"

namespace sluice {

void FollowedText::Learn(absl::Span<const TokenId> tokens) {
  const size_t num_known = num_common_ + rest_.size();
  SLUICE_CHECK(tokens.size() >= num_known);
  // Where it lags already, its guesses are behind other tokens than these.
  if (!lags()) Compare(tokens);
  const size_t first_new = num_common_ + rest_.size();
  rest_.insert(rest_.end(), tokens.begin() + static_cast<ptrdiff_t>(first_new), tokens.end());
  if (!lags() || !has_choice_) return;
  proposal_.pop_back();
  has_choice_ = false;
}

// Takes the leading guesses that have become tokens of the sequence.
void FollowedText::Compare(absl::Span<const TokenId> tokens) {
  const size_t num_written = proposal_.size() - (has_choice_ ? 1 : 0);
  size_t num_right = 0;
  while (num_right < num_written && num_common_ < std::ssize(tokens) &&
         tokens[num_common_] == proposal_[num_right].token) {
    ++num_right;
    ++num_common_;
  }
  proposal_.erase(proposal_.begin(), proposal_.begin() + static_cast<ptrdiff_t>(num_right));
}

void FollowedText::Choose(const DraftToken& token) {
  SLUICE_CHECK(!has_choice_);
  if (lags()) return;
  proposal_.push_back(token);
  has_choice_ = true;
}

void FollowedText::TakeChoice() {
  SLUICE_CHECK(has_choice_);
  own_.push_back(proposal_.back().token);
  has_choice_ = false;
}

void FollowedText::CatchUp() {
  own_.resize(num_common_);
  own_.insert(own_.end(), rest_.begin(), rest_.end());
  num_common_ = static_cast<int32_t>(own_.size());
  rest_.clear();
  proposal_.clear();
  has_choice_ = false;
}

void FollowedText::Drop() {
  rest_.insert(rest_.begin(), own_.begin(), own_.begin() + num_common_);
  own_.clear();
  num_common_ = 0;
  proposal_.clear();
  has_choice_ = false;
}

}  // namespace sluice
