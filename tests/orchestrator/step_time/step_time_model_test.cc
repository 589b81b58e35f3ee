#include "orchestrator/step_time/step_time_model.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/orchestrator/step_time/samples.h"

namespace sluice {
namespace {

// A step that computes prompts.
StepSample Prompts(int32_t sequences, int32_t positions, absl::Duration time) {
  StepSample sample = Decodes(sequences, time);
  sample.positions = positions;
  return sample;
}

// One of a sequence with drafts: more rows than sequences.
StepSample Drafts(int32_t rows, absl::Duration time) {
  StepSample sample = Decodes(rows, time);
  sample.sequences = 1;
  return sample;
}

class StepTimeModelTest : public ::testing::Test {
 protected:
  void Observe(const StepSample& sample, int times = 1) {
    for (int i = 0; i < times; ++i) model_.Observe(sample);
  }
  double SecondsFor(int32_t num_positions, int32_t num_tokens) const {
    return absl::ToDoubleSeconds(model_.TimeFor(num_positions, num_tokens));
  }

  StepTimeModel model_{absl::Seconds(2)};
};

// ---- Expected ----

TEST_F(StepTimeModelTest, ExpectsWhatLiesBetweenMeasurements) {
  EXPECT_FALSE(model_.knows_rows());
  Observe(Decodes(1, absl::Milliseconds(10)));
  Observe(Decodes(5, absl::Milliseconds(14)));
  EXPECT_TRUE(model_.knows_rows());
  EXPECT_DOUBLE_EQ(model_.Expected(1), 0.010);
  EXPECT_DOUBLE_EQ(model_.Expected(3), 0.012);
  EXPECT_DOUBLE_EQ(model_.Expected(5), 0.014);
}

TEST_F(StepTimeModelTest, MoreRowsThanEverMeasuredSeemFreeUntilTheyAreMeasured) {
  Observe(Decodes(4, absl::Milliseconds(10)));
  EXPECT_DOUBLE_EQ(model_.Expected(64), 0.010);
  Observe(Drafts(64, absl::Milliseconds(90)));
  EXPECT_DOUBLE_EQ(model_.Expected(64), 0.090);
  EXPECT_DOUBLE_EQ(model_.Expected(34), 0.050);
}

TEST_F(StepTimeModelTest, OneSlowStepCountsLittle) {
  Observe(Decodes(1, absl::Milliseconds(10)), 20);
  Observe(Decodes(1, absl::Seconds(5)));
  EXPECT_LT(model_.Expected(1), 0.015);
}

TEST_F(StepTimeModelTest, ForgetsWhatWasLongAgo) {
  Observe(Decodes(8, absl::Milliseconds(80)));
  Observe(Decodes(1, absl::Milliseconds(10)), StepTimeModel::kForgottenAfter + 1);
  EXPECT_DOUBLE_EQ(model_.Expected(8), 0.010);
}

TEST_F(StepTimeModelTest, StepsSentAheadAreComparedWithTheirLike) {
  Observe(Decodes(2, absl::Milliseconds(8), /*ahead=*/true));
  EXPECT_DOUBLE_EQ(model_.Expected(2), 0.008) << "nothing else is known";
  Observe(Decodes(2, absl::Milliseconds(10)));
  EXPECT_DOUBLE_EQ(model_.Expected(2), 0.010);
  EXPECT_DOUBLE_EQ(model_.ExpectedAhead(2), 0.008);
}

TEST_F(StepTimeModelTest, WithoutStepsSentAheadTheyTakeWhatTheOthersDo) {
  Observe(Decodes(2, absl::Milliseconds(10)));
  EXPECT_DOUBLE_EQ(model_.ExpectedAhead(2), 0.010);
}

TEST_F(StepTimeModelTest, StepsWithPromptsOrAfterAPauseDoNotCountByRows) {
  Observe(Prompts(1, 100, absl::Milliseconds(50)));
  StepSample late = Decodes(1, absl::Seconds(1));
  late.after_idle = true;
  Observe(late);
  EXPECT_FALSE(model_.knows_rows());
}

TEST_F(StepTimeModelTest, ExpectsTheCostOfAStepAndBillsItsBusyTime) {
  StepSample sample = Decodes(1, absl::Milliseconds(10));
  sample.cost = absl::Milliseconds(12);
  Observe(sample, 10);
  EXPECT_DOUBLE_EQ(model_.Expected(1), 0.012);
  EXPECT_DOUBLE_EQ(SecondsFor(0, 1), 0.010);
}

// ---- Price ----

TEST_F(StepTimeModelTest, KnowsNoPriceFromOneSizeAlone) {
  EXPECT_FALSE(model_.Price().known());
  Observe(Decodes(4, absl::Milliseconds(3)), 100);
  EXPECT_FALSE(model_.Price().known());
}

TEST_F(StepTimeModelTest, FindsTheLineInNoise) {
  std::mt19937 random(7);
  std::uniform_int_distribution<int> positions(1, 64);
  std::uniform_real_distribution<double> noise(0.9, 1.1);
  for (int i = 0; i < 4000; ++i) {
    const int n = positions(random);
    Observe(Decodes(n, absl::Milliseconds((2 + 0.25 * n) * noise(random))));
  }
  EXPECT_NEAR(model_.Price().fixed, 0.002, 0.0003);
  EXPECT_NEAR(model_.Price().per_position, 0.00025, 0.00003);
}

TEST_F(StepTimeModelTest, RemembersThePriceOfSizesThatAreSeenNoMore) {
  Observe(Decodes(1, absl::Milliseconds(3)), 20);
  Observe(Decodes(64, absl::Milliseconds(66)), 10'000);
  EXPECT_NEAR(model_.Price().fixed, 0.002, 1e-4);
  EXPECT_NEAR(model_.Price().per_position, 0.001, 1e-5);
}

TEST_F(StepTimeModelTest, AStepThatWasHeldUpMovesThePriceLittle) {
  for (int i = 0; i < 200; ++i) Observe(Decodes(1 + i % 8, absl::Milliseconds(2 + (1 + i % 8))));
  Observe(Decodes(1, absl::Seconds(5)));
  EXPECT_NEAR(model_.Price().Of(1), 0.003, 0.001);
}

TEST_F(StepTimeModelTest, ThePriceFollowsAMachineThatBecomesSlower) {
  for (int i = 0; i < 2000; ++i) Observe(Decodes(1 + i % 8, absl::Milliseconds(2 + (1 + i % 8))));
  for (int i = 0; i < 4000; ++i) {
    Observe(Decodes(1 + i % 8, 2 * absl::Milliseconds(2 + (1 + i % 8))));
  }
  EXPECT_NEAR(model_.Price().fixed, 0.004, 2e-4);
  EXPECT_NEAR(model_.Price().per_position, 0.002, 1e-4);
}

TEST_F(StepTimeModelTest, SizesOutOfRangeHaveNoPrice) {
  for (int i = 0; i < 100; ++i) {
    Observe(Decodes(0, absl::Milliseconds(1)));
    Observe(Decodes(1 << 20, absl::Milliseconds(9)));
    Observe(Decodes(1, absl::Milliseconds(1)));
  }
  EXPECT_FALSE(model_.Price().known());
}

// ---- TimeFor ----

TEST_F(StepTimeModelTest, WorkThatWasNeverSeenTakesNoTime) {
  EXPECT_EQ(model_.TimeFor(1000, 1000), absl::ZeroDuration());
  Observe(Decodes(8, absl::Milliseconds(10)));
  EXPECT_EQ(model_.TimeFor(1000, 0), absl::ZeroDuration()) << "no prompt was seen";
  EXPECT_DOUBLE_EQ(SecondsFor(1000, 100), 1);
}

TEST_F(StepTimeModelTest, PromptsAndTokensAddUp) {
  for (int i = 0; i < 500; ++i) {
    Observe(Prompts(1, 1000, absl::Milliseconds(20)));
    Observe(Decodes(4, absl::Milliseconds(20)));
  }
  EXPECT_NEAR(SecondsFor(5000, 10), 0.1 + 0.2, 1e-9);
}

TEST_F(StepTimeModelTest, WorkFollowsStepsThatStaySlowerAndNotOneThatWasHeldUp) {
  Observe(Decodes(4, absl::Milliseconds(10)), 100);
  Observe(Decodes(4, absl::Minutes(1)));
  EXPECT_LT(SecondsFor(0, 100), 1.1);
  Observe(Decodes(4, absl::Milliseconds(100)), 500);
  EXPECT_NEAR(SecondsFor(0, 100), 10, 0.2);
}

// ---- Bound ----

TEST_F(StepTimeModelTest, BoundsFollowTheLatencyOfStepsOfTheirSize) {
  const absl::Duration at_first = model_.Bound(1);
  EXPECT_EQ(at_first, absl::Seconds(30));
  StepSample queued = Decodes(16, absl::Milliseconds(100));
  queued.latency = absl::Seconds(1);  // it waited for the one before
  Observe(queued);
  EXPECT_EQ(model_.Bound(1), absl::Seconds(10));
  EXPECT_EQ(model_.Bound(16), absl::Seconds(20));
}

TEST_F(StepTimeModelTest, BoundsDoubleWithEveryHangUntilAStepCompletes) {
  Observe(Decodes(1, absl::Milliseconds(1)));
  EXPECT_EQ(model_.Bound(1), absl::Seconds(2));
  model_.OnHang();
  model_.OnHang();
  EXPECT_EQ(model_.Bound(1), absl::Seconds(8));
  Observe(Decodes(1, absl::Milliseconds(1)));
  EXPECT_EQ(model_.Bound(1), absl::Seconds(2));
}

}  // namespace
}  // namespace sluice
