#include "orchestrator/draft_model/followed_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<TokenId> Proposed(const FollowedText& text) {
  std::vector<TokenId> tokens;
  for (const DraftToken& token : text.proposal()) tokens.push_back(token.token);
  return tokens;
}

// The sequence has 1, 2, 3, and behind them 4 and 5 were guessed and 6 chosen.
FollowedText Guessed() {
  FollowedText text;
  text.Learn({1, 2, 3});
  text.CatchUp();
  for (const TokenId token : {4, 5}) {
    text.Choose({.token = token, .kind = DraftKind::kModelSure});
    text.TakeChoice();
  }
  text.Choose({.token = 6, .kind = DraftKind::kModelGuess});
  return text;
}

TEST(FollowedTextTest, HasNothingUntilItHasCaughtUp) {
  FollowedText text;
  text.Learn({1, 2, 3});
  EXPECT_TRUE(text.lags());
  EXPECT_THAT(text.own(), IsEmpty());
  EXPECT_THAT(text.rest(), ElementsAre(1, 2, 3));
  text.CatchUp();
  EXPECT_FALSE(text.lags());
  EXPECT_THAT(text.own(), ElementsAre(1, 2, 3));
  EXPECT_THAT(text.proposal(), IsEmpty());
}

TEST(FollowedTextTest, ProposesWhatItGuessedAndWhatWasChosenLast) {
  const FollowedText text = Guessed();
  EXPECT_THAT(text.own(), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(Proposed(text), ElementsAre(4, 5, 6));
  EXPECT_EQ(text.proposal()[2].kind, DraftKind::kModelGuess);
  EXPECT_EQ(text.num_common(), 3);
}

TEST(FollowedTextTest, KeepsGuessesThatCameTrueAndLagsByTheOthers) {
  FollowedText text = Guessed();
  text.Learn({1, 2, 3, 4, 9});
  EXPECT_EQ(text.num_common(), 4);
  EXPECT_THAT(text.rest(), ElementsAre(9));
  EXPECT_THAT(text.proposal(), IsEmpty());
  text.Learn({1, 2, 3, 4, 9, 10});
  EXPECT_THAT(text.rest(), ElementsAre(9, 10));
  text.CatchUp();
  EXPECT_THAT(text.own(), ElementsAre(1, 2, 3, 4, 9, 10));
}

TEST(FollowedTextTest, WhereAllGuessesCameTrueTheLastChoiceIsNotTakenForComputed) {
  FollowedText text = Guessed();
  text.Learn({1, 2, 3, 4, 5, 6, 7});
  EXPECT_EQ(text.num_common(), 5);
  EXPECT_THAT(text.rest(), ElementsAre(6, 7));
  EXPECT_FALSE(text.has_choice());
}

TEST(FollowedTextTest, GoesOnProposingBehindAGuessThatCameTrueAlone) {
  FollowedText text = Guessed();
  text.Learn({1, 2, 3, 4});
  EXPECT_FALSE(text.lags());
  EXPECT_THAT(Proposed(text), ElementsAre(5, 6));
}

TEST(FollowedTextTest, AChoiceBehindWhatTheSequenceHasNotCountsForNothing) {
  FollowedText text;
  text.Learn({1, 2});
  text.CatchUp();
  text.Learn({1, 2, 3});
  text.Choose({.token = 4, .kind = DraftKind::kModelSure});
  EXPECT_THAT(text.proposal(), IsEmpty());
  EXPECT_FALSE(text.has_choice());
}

TEST(FollowedTextTest, DroppedItKnowsTheSequenceAllTheSame) {
  FollowedText text = Guessed();
  text.Learn({1, 2, 3, 4, 9});
  text.Drop();
  EXPECT_THAT(text.own(), IsEmpty());
  EXPECT_THAT(text.rest(), ElementsAre(1, 2, 3, 4, 9));
  text.Learn({1, 2, 3, 4, 9, 10});
  text.CatchUp();
  EXPECT_THAT(text.own(), ElementsAre(1, 2, 3, 4, 9, 10));
}

}  // namespace
}  // namespace sluice
