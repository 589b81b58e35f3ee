#include "orchestrator/drafts/speculation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/orchestrator/step_time/samples.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A machine on which a step costs `fixed` and `per_row` milliseconds, and a sequence that expects
// its next tokens to be 0, 1, 2, ...
class SpeculationTest : public ::testing::Test {
 protected:
  static SequenceSpec SpecOf(SequenceId id, int max_drafts = 32) {
    SequenceSpec spec;
    spec.id = id;
    spec.max_drafts = max_drafts;
    std::vector<TokenId> expected(1000);
    for (int i = 0; i < 1000; ++i) expected[i] = i;
    spec.expected_tokens = std::make_shared<const std::vector<TokenId>>(std::move(expected));
    return spec;
  }

  SpeculationTest() { Make({}); }
  void Make(const SpeculationOptions& options) {
    speculation_ = std::make_unique<Speculation>(options);
    speculation_->UseSteps(&steps_);
  }

  void Step(int rows, double milliseconds, bool ahead = false) {
    steps_.Observe(Decodes(rows, absl::Milliseconds(milliseconds), ahead));
    speculation_->OnStep();
  }

  Tokens DraftOf(SequenceId id, int32_t num_decodes = 1, int32_t most = 32) {
    std::vector<DraftCandidate> candidates(1);
    candidates[0].sequence = id;
    candidates[0].tokens = tokens_;
    candidates[0].most = most;
    speculation_->Draft({.num_decodes = num_decodes, .tokens = 100}, absl::MakeSpan(candidates));
    return candidates[0].draft;
  }

  // The sequence gets its next tokens, of which the expected ones come in order.
  void Choose(const SequenceSpec& spec, const std::vector<TokenId>& tokens) {
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
    speculation_->OnTokens(spec, 1, tokens_);
  }

  StepTimeModel steps_{absl::Seconds(2)};
  std::unique_ptr<Speculation> speculation_;
  std::vector<TokenId> tokens_ = {500};
};

TEST_F(SpeculationTest, DraftsWhatIsExpectedWhereRowsAreFree) {
  const SequenceSpec spec = SpecOf(1);
  Choose(spec, {0});
  EXPECT_THAT(DraftOf(1), IsEmpty()) << "nothing is known of what steps take";
  for (int i = 0; i < 10; ++i) Step(1, 10);
  Choose(spec, {1});
  EXPECT_TRUE(speculation_->AllWait(1));
  EXPECT_THAT(DraftOf(1), ElementsAre(2, 3, 4, 5, 6, 7, 8, 9));
  EXPECT_THAT(DraftOf(1, 1, 2), ElementsAre(2, 3));
}

TEST_F(SpeculationTest, StopsWhereEveryRowHasItsPrice) {
  const SequenceSpec spec = SpecOf(1);
  Choose(spec, {0});
  for (int i = 0; i < 10; ++i) Step(1, 10);
  for (int rows = 2; rows <= 9; ++rows) Step(rows, 10 * rows);
  Choose(spec, {1});
  EXPECT_THAT(DraftOf(1), IsEmpty());
  EXPECT_FALSE(speculation_->AllWait(1));
}

TEST_F(SpeculationTest, TriesAgainLongAfterAStepThatWasHeldUp) {
  const SequenceSpec spec = SpecOf(1);
  Choose(spec, {0});
  for (int i = 0; i < 10; ++i) Step(1, 10);
  Step(9, 200);
  EXPECT_FALSE(speculation_->AllWait(1));
  Choose(spec, {1});
  EXPECT_THAT(DraftOf(1), IsEmpty());
  for (int i = 0; i <= StepTimeModel::kForgottenAfter; ++i) Step(1, 9, true);
  std::ignore = speculation_->AllWait(1);
  Choose(spec, {2});
  EXPECT_THAT(DraftOf(1), ::testing::Not(IsEmpty()));
}

TEST_F(SpeculationTest, StopsWhereDraftsAreWrongAndBeginsAgainWhereTheyWouldBeRight) {
  const SequenceSpec spec = SpecOf(1);
  Choose(spec, {0});
  for (int i = 0; i < 10; ++i) Step(1, 10);
  for (int rows = 2; rows <= 9; ++rows) Step(rows, 10 + rows);
  EXPECT_THAT(DraftOf(1), ::testing::Not(IsEmpty()));
  for (int i = 0; i < 60; ++i) Choose(spec, {600 + (i * i) % 97});
  EXPECT_THAT(DraftOf(1), IsEmpty());
  EXPECT_FALSE(speculation_->AllWait(1));
  // Nothing is drafted, and what would have been comes.
  for (int i = 61; i < 120; ++i) Choose(spec, {i});
  EXPECT_THAT(DraftOf(1), ::testing::Not(IsEmpty()));
}

TEST_F(SpeculationTest, WaitsOnlyWhereDraftsWinMoreThanGoingAhead) {
  const SequenceSpec spec = SpecOf(1, 1);
  for (int i = 0; i < 10; ++i) Step(1, 10, true);
  for (int i = 0; i < 10; ++i) Step(2, 13);
  Choose(spec, {0});
  EXPECT_TRUE(speculation_->AllWait(1)) << "1.8 tokens in 13 ms against 1 in 10";
  for (int i = 0; i < 60; ++i) Step(2, 19);
  Choose(spec, {1});
  EXPECT_FALSE(speculation_->AllWait(1)) << "1.8 tokens in 19 ms";
}

// Where every row has its price, drafts are wrong, and nothing is known at first.
TEST_F(SpeculationTest, DraftsAlwaysWhateverItCosts) {
  Make({.policy = DraftPolicy::kAlways});
  const SequenceSpec spec = SpecOf(1);
  EXPECT_FALSE(speculation_->AllWait(1)) << "nobody is drafted on";
  Choose(spec, {0});
  for (int i = 0; i < 200; ++i) {
    for (int rows = 1; rows <= 9; ++rows) Step(rows, 10 * rows, i % 2 == 0);
    EXPECT_TRUE(speculation_->AllWait(1));
    speculation_->OnLikely(1, static_cast<int32_t>(tokens_.size()), {7, 8, 9});
    EXPECT_THAT(DraftOf(1), ::testing::Not(IsEmpty())) << i;
    Choose(spec, {600 + (i * i) % 97});
  }
}

TEST_F(SpeculationTest, AllDraftsHaveRoomOrAreCutToIt) {
  Make({.policy = DraftPolicy::kAlways});
  Choose(SpecOf(1), {0});
  speculation_->OnTokens(SpecOf(2), 1, tokens_);
  std::vector<DraftCandidate> candidates(2);
  for (int i = 0; i < 2; ++i) {
    candidates[i].sequence = i + 1;
    candidates[i].tokens = tokens_;
    candidates[i].most = 32;
  }
  speculation_->Draft({.num_decodes = 2, .tokens = 10}, absl::MakeSpan(candidates));
  EXPECT_THAT(candidates[0].draft, ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
  EXPECT_THAT(candidates[1].draft, ElementsAre(1, 2));
}

TEST_F(SpeculationTest, BesidePromptsNothingIsGuessed) {
  Choose(SpecOf(1), {0});
  for (int i = 0; i < 10; ++i) Step(1, 10);
  std::vector<DraftCandidate> candidates(1);
  candidates[0].sequence = 1;
  candidates[0].tokens = tokens_;
  candidates[0].most = 4;
  speculation_->Draft({.num_decodes = 1, .tokens = 100, .beside_prompts = true},
                      absl::MakeSpan(candidates));
  EXPECT_THAT(candidates[0].draft, IsEmpty());
  speculation_->OnForced(1, 2, {7, 8, 9});
  speculation_->Draft({.num_decodes = 1, .tokens = 100, .beside_prompts = true},
                      absl::MakeSpan(candidates));
  EXPECT_THAT(candidates[0].draft, ElementsAre(7, 8, 9));
}

TEST_F(SpeculationTest, WhatIsForcedNeedsNoLuckAndNoMeasurement) {
  Make({.mode = DraftMode::kNone});
  const SequenceSpec spec = SpecOf(1);
  Choose(spec, {0});
  speculation_->OnForced(1, 2, {7, 8, 9});
  EXPECT_TRUE(speculation_->Waits(1));
  EXPECT_THAT(DraftOf(1), ElementsAre(7, 8, 9));
  Choose(spec, {7, 8});
  EXPECT_FALSE(speculation_->Waits(1)) << "one is chosen as soon by going ahead";
  EXPECT_THAT(DraftOf(1), ElementsAre(9));
  Choose(spec, {9});
  EXPECT_THAT(DraftOf(1), IsEmpty());
  for (int i = 0; i < 10; ++i) Step(1, 10);
  EXPECT_THAT(DraftOf(1), IsEmpty()) << "nothing is guessed";
}

TEST_F(SpeculationTest, DraftsHowAForcedTextIsUsuallyWritten) {
  SequenceSpec spec;
  spec.id = 1;
  spec.max_drafts = 32;
  for (int i = 0; i < 10; ++i) Step(1, 10);
  Choose(spec, {0});
  speculation_->OnLikely(1, 1, {7, 8, 9});
  EXPECT_THAT(DraftOf(1), IsEmpty()) << "told of what is behind other tokens";
  speculation_->OnLikely(1, 2, {7, 8, 9});
  EXPECT_TRUE(speculation_->AllWait(1));
  EXPECT_THAT(DraftOf(1), ElementsAre(7, 8, 9));
  Choose(spec, {7});
  EXPECT_THAT(DraftOf(1), IsEmpty()) << "it is told again with every token";
  // Where it is seldom right, and rows have a price, it is not worth it.
  for (int rows = 2; rows <= 9; ++rows) Step(rows, 10 + 2 * rows);
  for (int i = 0; i < 60; ++i) {
    speculation_->OnLikely(1, static_cast<int32_t>(tokens_.size()), {7, 8, 9});
    Choose(spec, {600 + (i * i) % 97});
  }
  speculation_->OnLikely(1, static_cast<int32_t>(tokens_.size()), {7, 8, 9});
  EXPECT_THAT(DraftOf(1), IsEmpty());
}

TEST_F(SpeculationTest, WithoutGuessesNothingLikelyIsDrafted) {
  Make({.mode = DraftMode::kNone});
  Choose(SpecOf(1), {0});
  for (int i = 0; i < 10; ++i) Step(1, 10);
  speculation_->OnLikely(1, 2, {7, 8, 9});
  EXPECT_THAT(DraftOf(1), IsEmpty());
}

TEST_F(SpeculationTest, ASequenceIsForgottenWithItsEnd) {
  Choose(SpecOf(1), {0});
  for (int i = 0; i < 10; ++i) Step(1, 10);
  speculation_->OnEnd(1, tokens_);
  EXPECT_THAT(DraftOf(1), IsEmpty());
  EXPECT_FALSE(speculation_->AllWait(1));
}

TEST_F(SpeculationTest, DraftsFromWhatTheTenantWroteBefore) {
  SequenceSpec spec;
  spec.max_drafts = 4;
  spec.id = 1;
  spec.tenant = "ann";
  tokens_ = {500, 11, 12, 13, 14, 15, 16, 17};
  speculation_->OnTokens(spec, 1, tokens_);
  speculation_->OnEnd(1, tokens_);
  for (int i = 0; i < 10; ++i) Step(1, 10);
  tokens_ = {400, 11, 12, 13};
  for (const auto& [tenant, salt, shares, drafts] :
       std::vector<std::tuple<std::string, std::string, bool, bool>>{{"ann", "", true, true},
                                                                     {"ann", "", false, false},
                                                                     {"ann", "salt", true, false},
                                                                     {"bob", "", true, false}}) {
    ++spec.id;
    spec.tenant = tenant;
    spec.cache_salt = salt;
    spec.use_prefix_cache = shares;
    speculation_->OnTokens(spec, 1, tokens_);
    EXPECT_EQ(!DraftOf(spec.id).empty(), drafts) << tenant << " " << salt << " " << shares;
    if (drafts) {
      EXPECT_EQ(DraftOf(spec.id)[0], 14);
    }
    speculation_->OnEnd(spec.id, {});
  }
}

}  // namespace
}  // namespace sluice
