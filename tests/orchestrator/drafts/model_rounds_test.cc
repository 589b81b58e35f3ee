// When a draft model is asked, how long sequences wait for it, and that it ends where it does not pay.
#include "orchestrator/drafts/model_rounds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "orchestrator/drafts/speculation.h"
#include "tests/orchestrator/step_time/samples.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Does what it is told at once, or when it is told to be done.
class ToldModel final : public ModelDrafter {
 public:
  void OnTokens(const SequenceSpec& spec, int32_t, absl::Span<const TokenId> tokens) override {
    num_tokens[spec.id] = static_cast<int>(tokens.size());
    at_work.erase(spec.id);
    proposals[spec.id].clear();
  }
  void OnEnd(SequenceId sequence) override {
    num_tokens.erase(sequence);
    proposals.erase(sequence);
  }
  bool IsClose(SequenceId sequence) const override { return close.count(sequence) > 0; }
  void CatchUp(SequenceId sequence) override {
    caught_up.insert(sequence);
    if (is_there) catching_up.insert(sequence);
  }
  bool Begin(SequenceId sequence, int32_t length) override {
    if (!IsClose(sequence)) return false;
    begun.emplace_back(sequence, length);
    at_work.insert(sequence);
    return true;
  }
  bool IsAtWork(SequenceId sequence) const override { return at_work.count(sequence) > 0; }
  bool IsComputing(SequenceId sequence) const override {
    return IsAtWork(sequence) || catching_up.count(sequence) > 0;
  }
  absl::Span<const DraftToken> ProposalOf(SequenceId sequence) const override {
    const auto found = proposals.find(sequence);
    return found == proposals.end() ? absl::Span<const DraftToken>() : found->second;
  }
  const StepTimeModel& step_times() const override { return steps; }

  void Done(SequenceId sequence, const std::vector<TokenId>& tokens,
            DraftKind kind = DraftKind::kModelSure) {
    at_work.erase(sequence);
    for (const TokenId token : tokens) proposals[sequence].push_back({token, kind});
  }

  // Has caught up.
  void Close(SequenceId sequence) {
    catching_up.erase(sequence);
    close.insert(sequence);
  }

  // A step of so many rows has taken so long.
  void Step(int32_t rows, absl::Duration time) { steps.Observe(Decodes(rows, time)); }

  StepTimeModel steps{absl::Seconds(2)};
  bool is_there = true;
  std::set<SequenceId> close, caught_up, catching_up, at_work;
  std::vector<std::pair<SequenceId, int32_t>> begun;
  std::map<SequenceId, std::vector<DraftToken>> proposals;
  std::map<SequenceId, int> num_tokens;
};

// A served model whose steps take 10 ms and a little for each row, and what is had without drafts.
double Cost(int32_t rows) { return 0.010 + 0.0002 * rows; }
double Plain(int32_t sequences) { return sequences / Cost(sequences); }

class ModelRoundsTest : public ::testing::Test {
 protected:
  ModelRoundsTest() { rounds_.UseModel(&model_); }

  bool Decide(const std::vector<RoundCandidate>& candidates) {
    const auto num_decodes = static_cast<int32_t>(candidates.size());
    return rounds_.Decide(num_decodes, candidates, Cost, Plain(num_decodes));
  }
  void KnowCost(absl::Duration step) {
    for (int32_t rows = 1; rows <= 4; ++rows) model_.Step(rows, step);
  }
  void Wait(absl::Duration time) { rounds_.SetTime(now_ += time); }
  void Steps(int count) {
    for (int i = 0; i < count; ++i) rounds_.OnStep();
  }

  ToldModel model_;
  ModelRounds rounds_;
  absl::Duration now_;
};

TEST_F(ModelRoundsTest, AsksWhereTheModelIsFastAndRight) {
  KnowCost(absl::Milliseconds(1));
  model_.close = {1};
  ASSERT_TRUE(Decide({{.sequence = 1, .chance = 0.8, .most = 8}}));
  EXPECT_TRUE(rounds_.Holds(1, 20));
  ASSERT_EQ(model_.begun.size(), 1u);
  EXPECT_GE(model_.begun[0].second, 3);
  EXPECT_TRUE(rounds_.Holds(1, 20)) << "it is asked once for these tokens";
  EXPECT_EQ(model_.begun.size(), 1u);
  model_.Done(1, {5});
  EXPECT_FALSE(rounds_.Holds(1, 20));
  EXPECT_FALSE(rounds_.Holds(1, 20));
}

TEST_F(ModelRoundsTest, AsksForMoreTheMoreOftenItIsRight) {
  KnowCost(absl::Milliseconds(1));
  model_.close = {1};
  int32_t last = 0;
  int32_t num_tokens = 10;
  for (const double chance : {0.5, 0.8, 0.99}) {
    ASSERT_TRUE(Decide({{.sequence = 1, .chance = chance, .most = 8}})) << chance;
    ASSERT_TRUE(rounds_.Holds(1, ++num_tokens));
    EXPECT_GT(model_.begun.back().second, last) << chance;
    last = model_.begun.back().second;
    model_.Done(1, {5});
  }
  EXPECT_EQ(last, ModelRounds::kMostTokens);
}

TEST_F(ModelRoundsTest, DoesNotAskWhereItIsSlowOrWrongButProbesEverMoreRarely) {
  KnowCost(absl::Milliseconds(9));
  model_.close = {1};
  int32_t num_tokens = 0;
  std::vector<int> at;
  for (int step = 0; step < 1000; ++step) {
    ++num_tokens;
    if (Decide({{.sequence = 1, .chance = 0.3, .most = 8}}) && rounds_.Holds(1, num_tokens)) {
      at.push_back(step);
      EXPECT_EQ(model_.begun.back().second, 4);
      model_.Done(1, {5, 6});
      EXPECT_FALSE(rounds_.Holds(1, num_tokens));
    }
    rounds_.OnStep();
  }
  ASSERT_GE(at.size(), 5u);
  EXPECT_LE(at.size(), 8u);
  EXPECT_GT(at[4] - at[3], 1.9 * (at[3] - at[2]));
}

TEST_F(ModelRoundsTest, AProbeShowsThatItPays) {
  model_.close = {1};
  ASSERT_TRUE(Decide({{.sequence = 1, .chance = 0.8, .most = 8}})) << "nothing is known of it";
  ASSERT_TRUE(rounds_.Holds(1, 10));
  EXPECT_EQ(model_.begun.back().second, 4);
  KnowCost(absl::Milliseconds(1));
  model_.Done(1, {5, 6});
  EXPECT_FALSE(rounds_.Holds(1, 10));
  rounds_.OnStep();
  ASSERT_TRUE(Decide({{.sequence = 1, .chance = 0.8, .most = 8}}));
  EXPECT_TRUE(rounds_.Holds(1, 13));
}

TEST_F(ModelRoundsTest, SequencesThatAreNotCloseAreBroughtCloseAndNotWaitedFor) {
  KnowCost(absl::Milliseconds(1));
  model_.close = {2};
  ASSERT_TRUE(Decide(
      {{.sequence = 1, .chance = 0.8, .most = 8}, {.sequence = 2, .chance = 0.8, .most = 8}}));
  EXPECT_THAT(model_.caught_up, ElementsAre(1));
  EXPECT_FALSE(rounds_.Holds(1, 10));
  EXPECT_TRUE(rounds_.Holds(2, 10));
}

TEST_F(ModelRoundsTest, GoesOnWithoutADraftThatDoesNotComeAndRestsThen) {
  KnowCost(absl::Milliseconds(1));
  model_.close = {1};
  Wait(absl::Seconds(1));
  ASSERT_TRUE(Decide({{.sequence = 1, .chance = 0.8, .most = 4}}));
  ASSERT_TRUE(rounds_.Holds(1, 10));
  EXPECT_GT(rounds_.NextTimeout(), now_);
  EXPECT_LT(rounds_.NextTimeout(), now_ + absl::Milliseconds(20));
  Wait(rounds_.NextTimeout() - now_);
  EXPECT_FALSE(rounds_.Holds(1, 10));
  EXPECT_EQ(rounds_.NextTimeout(), absl::InfiniteDuration());
  rounds_.OnStep();
  EXPECT_FALSE(Decide({{.sequence = 1, .chance = 0.8, .most = 4}})) << "it rests";
  Steps(40);
  ASSERT_TRUE(Decide({{.sequence = 1, .chance = 0.8, .most = 4}})) << "a probe";
  ASSERT_TRUE(rounds_.Holds(1, 51));
  model_.Done(1, {5, 6});
  EXPECT_FALSE(rounds_.Holds(1, 51));
  rounds_.OnStep();
  ASSERT_TRUE(Decide({{.sequence = 1, .chance = 0.8, .most = 4}}));
  ASSERT_TRUE(rounds_.Holds(1, 54));
  EXPECT_EQ(model_.begun.back().second, 4) << "it is asked as before";
}

TEST_F(ModelRoundsTest, WhoWaitsGoesOnWaitingWhateverIsDecidedForOthers) {
  KnowCost(absl::Milliseconds(1));
  model_.close = {1};
  ASSERT_TRUE(Decide({{.sequence = 1, .chance = 0.8, .most = 4}}));
  ASSERT_TRUE(rounds_.Holds(1, 10));
  model_.close.clear();  // it computes
  EXPECT_TRUE(rounds_.DecideAgainst());
  EXPECT_TRUE(rounds_.Holds(1, 10));
  EXPECT_FALSE(rounds_.Holds(2, 10));
}

TEST_F(ModelRoundsTest, ALostModelHoldsNobody) {
  KnowCost(absl::Milliseconds(1));
  model_.close = {1};
  ASSERT_TRUE(Decide({{.sequence = 1, .chance = 0.8, .most = 4}}));
  ASSERT_TRUE(rounds_.Holds(1, 10));
  model_.at_work.clear();
  model_.close.clear();
  EXPECT_FALSE(rounds_.Holds(1, 10));
  EXPECT_FALSE(rounds_.DecideAgainst());
}

TEST_F(ModelRoundsTest, GoesOnWhileAnotherTokenIsWorthAStep) {
  KnowCost(absl::Milliseconds(1));
  model_.close = {1};
  ASSERT_TRUE(Decide({{.sequence = 1, .chance = 0.8, .most = 8}}));
  Chances chances;
  std::vector<DraftToken> sure(3, {.token = 1, .kind = DraftKind::kModelSure});
  EXPECT_TRUE(rounds_.GoesOn(sure, chances));
  std::vector<DraftToken> guesses(3, {.token = 1, .kind = DraftKind::kModelGuess});
  EXPECT_FALSE(rounds_.GoesOn(guesses, chances));
}

// With all around it: what the model proposes is computed, and held against what comes.
class SpeculationWithModelTest : public ::testing::Test {
 protected:
  explicit SpeculationWithModelTest(DraftPolicy policy = DraftPolicy::kMeasured)
      : speculation_({.mode = DraftMode::kNone, .policy = policy}) {
    speculation_.UseSteps(&steps_);
    speculation_.UseModel(&model_);
    spec_.id = 1;
    spec_.max_drafts = 8;
  }
  void Choose(const std::vector<TokenId>& tokens) {
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
    speculation_.OnTokens(spec_, 1, tokens_);
  }
  void Step(int rows, bool ahead = false) {
    steps_.Observe(Decodes(rows, absl::Seconds(Cost(rows)), ahead));
    speculation_.OnStep();
  }
  Tokens Draft() {
    std::vector<DraftCandidate> candidates(1);
    candidates[0].sequence = 1;
    candidates[0].tokens = tokens_;
    candidates[0].most = 8;
    speculation_.Draft({.num_decodes = 1, .tokens = 100}, absl::MakeSpan(candidates));
    return candidates[0].draft;
  }

  ToldModel model_;
  StepTimeModel steps_{absl::Seconds(2)};
  Speculation speculation_;
  absl::Duration time_;
  SequenceSpec spec_;
  std::vector<TokenId> tokens_ = {500};
};

TEST_F(SpeculationWithModelTest, WaitsForTheModelAndComputesWhatItProposes) {
  for (int i = 0; i < 5; ++i) Step(1, true);
  for (int i = 0; i < 5; ++i) model_.Step(1, absl::Milliseconds(1));
  model_.close = {1};
  Choose({1});
  EXPECT_TRUE(speculation_.AllWait(1));
  EXPECT_TRUE(speculation_.Holds(1, 2));
  model_.Done(1, {7, 8, 9});
  EXPECT_TRUE(speculation_.AllWait(1));
  EXPECT_FALSE(speculation_.Holds(1, 2));
  EXPECT_THAT(Draft(), ElementsAre(7, 8, 9));
}

TEST_F(SpeculationWithModelTest, AModelThatIsAlwaysWrongIsNotAskedAnyMore) {
  for (int i = 0; i < 5; ++i) Step(1, true);
  for (int i = 0; i < 5; ++i) model_.Step(1, absl::Milliseconds(1));
  model_.close = {1};
  int num_rounds = 0;
  for (int i = 0; i < 300; ++i) {
    Choose({i});
    if (speculation_.AllWait(1) && speculation_.Holds(1, i + 2)) {
      ++num_rounds;
      model_.Done(1, {1000, 1001});
    }
    Draft();
    Step(1);
  }
  EXPECT_LT(num_rounds, 60);
}

TEST_F(SpeculationWithModelTest, BesideSequencesThatDeclineNobodyIsAskedFor) {
  for (int i = 0; i < 5; ++i) Step(1, true);
  EXPECT_FALSE(speculation_.AllWait(1));
  EXPECT_THAT(model_.begun, IsEmpty());
}

class AskedAlwaysTest : public SpeculationWithModelTest {
 protected:
  AskedAlwaysTest() : SpeculationWithModelTest(DraftPolicy::kAlways) {}
};

// Nothing is known of what steps take, the model is slow, and it is always wrong.
TEST_F(AskedAlwaysTest, IsWaitedForWhateverItBrings) {
  EXPECT_FALSE(speculation_.AllWait(1)) << "nobody is drafted on";
  for (int i = 0; i < 300; ++i) {
    Choose({i});
    ASSERT_TRUE(speculation_.AllWait(1)) << i;
    ASSERT_TRUE(speculation_.Holds(1, i + 2)) << i;
    if (i == 0) {
      EXPECT_THAT(model_.caught_up, ElementsAre(1)) << "waited for until it is close, too";
      EXPECT_THAT(model_.begun, IsEmpty());
      model_.Close(1);
      ASSERT_TRUE(speculation_.Holds(1, i + 2));
    }
    ASSERT_EQ(model_.begun.size(), i + 1u);
    EXPECT_EQ(model_.begun.back().second, ModelRounds::kMostTokens);
    EXPECT_TRUE(speculation_.GoesOn(1, {}));
    speculation_.SetTime(time_ += absl::Seconds(1));
    EXPECT_TRUE(speculation_.Holds(1, i + 2)) << "a second is not too long";
    model_.Done(1, {1000, 1001}, DraftKind::kModelGuess);
    EXPECT_FALSE(speculation_.Holds(1, i + 2));
    EXPECT_THAT(Draft(), ElementsAre(1000, 1001));
    Step(3);
    model_.Step(1, absl::Seconds(1));
  }
}

TEST_F(AskedAlwaysTest, HoldsNobodyOnceLostOrForEver) {
  Choose({1});
  ASSERT_TRUE(speculation_.Holds(1, 2));
  model_.is_there = false;
  model_.catching_up.clear();
  EXPECT_FALSE(speculation_.Holds(1, 2));
  model_.is_there = true;
  EXPECT_FALSE(speculation_.Holds(1, 2)) << "for these tokens it is too late";
  Choose({2});
  EXPECT_TRUE(speculation_.Holds(1, 3));
  EXPECT_EQ(speculation_.NextTimeout(), time_ + ModelRounds::kMostPatience);
  speculation_.SetTime(time_ += ModelRounds::kMostPatience);
  EXPECT_FALSE(speculation_.Holds(1, 3));
  EXPECT_EQ(speculation_.NextTimeout(), absl::InfiniteDuration());
}

}  // namespace
}  // namespace sluice
