// A sequence of the served model as the draft model has it. Two texts that begin alike: the tokens
// that the sequence has, and those that the draft model has computed or computes, which may go on
// with its own guesses or lag behind. A pure class.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "orchestrator/drafts/drafter.h"

namespace sluice {

class FollowedText {
 public:
  // The sequence has these tokens: those of the call before with others behind them.
  void Learn(absl::Span<const TokenId> tokens);

  // What the draft model has. The first num_common() of it are the sequence's.
  absl::Span<const TokenId> own() const { return own_; }
  int32_t num_common() const { return num_common_; }
  // Tokens of the sequence behind those.
  absl::Span<const TokenId> rest() const { return rest_; }
  bool lags() const { return !rest_.empty(); }

  // What may follow the sequence's tokens; nothing while the draft model lags.
  absl::Span<const DraftToken> proposal() const {
    return lags() ? absl::Span<const DraftToken>() : proposal_;
  }
  // The last of it is not in own() yet.
  bool has_choice() const { return has_choice_; }

  // The draft model chooses this behind own(). REQUIRES: !has_choice().
  void Choose(const DraftToken& token);
  // own() goes on with the choice. REQUIRES: has_choice().
  void TakeChoice();
  // own() becomes the sequence's tokens, by dropping what is not and adding what lacks.
  void CatchUp();
  // The draft model has nothing of the sequence any more.
  void Drop();

 private:
  void Compare(absl::Span<const TokenId> tokens);

  std::vector<TokenId> own_;
  int32_t num_common_ = 0;
  std::vector<TokenId> rest_;
  // The tokens of own_ behind the common ones, and the choice where there is one.
  std::vector<DraftToken> proposal_;
  bool has_choice_ = false;
};

}  // namespace sluice
