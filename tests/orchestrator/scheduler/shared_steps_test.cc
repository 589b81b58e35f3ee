// What a tenant with little load feels of one with much, in the steps that both are in.
#include <algorithm>
#include <memory>
#include <string>

#include "tests/orchestrator/scheduler/testing.h"

namespace sluice {
namespace {

class SharedStepsTest : public SchedulerTest {
 protected:
  SharedStepsTest() {
    options_.tenant_policies = [] {
      return std::make_shared<const TenantPolicies>(TenantPolicies{.max_slowdown = 1.5});
    };
    kv_cache_ = {.num_blocks = 2000, .block_size = 4};
  }

  // Sequences that all decode once a step has computed their prompts.
  void Load(const std::string& tenant, SequenceId first, int count, int num_prompt = 1,
            int32_t priority = 0) {
    for (int i = 0; i < count; ++i) {
      SequenceSpec spec = Spec(first + i, num_prompt, 900);
      spec.tenant = tenant;
      spec.priority = priority;
      Add(std::move(spec));
    }
  }

  // Thirty beside one, in steps whose cost is known.
  void LoadBoth() {
    Load("busy", 100, 30);
    Load("light", 1, 1);
    PlanAndCommit();
    scheduler().SetStepCost(kCost);
  }

  static int CountOf(const Step& step, SequenceId sequence) {
    int count = 0;
    for (const Segment& segment : step.segments) {
      if (segment.sequence == sequence) count += static_cast<int>(segment.tokens.size());
    }
    return count;
  }

  // A step with one position takes 11 ms; 16.5 ms is time for six and seven in turns.
  static constexpr StepCost kCost = {.fixed = 0.01, .per_position = 0.001};
  static constexpr int kMost = 7;
};

TEST_F(SharedStepsTest, TheLightTenantIsInEveryStepAndStepsTakeNoLongerThanGranted) {
  LoadBoth();
  double seconds = 0;
  for (int i = 0; i < 20; ++i) {
    const Step step = PlanAndCommit();
    EXPECT_EQ(CountOf(step, 1), 1);
    EXPECT_LE(step.num_tokens(), kMost);
    seconds += kCost.Of(step.num_tokens());
  }
  EXPECT_NEAR(seconds, 20 * 1.5 * kCost.Of(1), 1e-9);
}

TEST_F(SharedStepsTest, SoItIsInStepsAhead) {
  options_.steps_ahead = 1;
  options_.max_inflight_steps = 2;
  LoadBoth();
  std::vector<Step> under_way;
  for (int i = 0; i < 40; ++i) {
    while (std::optional<Step> step = scheduler().Plan()) under_way.push_back(*std::move(step));
    ASSERT_FALSE(under_way.empty());
    if (i > 4) {
      EXPECT_LE(under_way.back().num_tokens(), kMost);
    }
    Commit(under_way.front());
    under_way.erase(under_way.begin());
  }
  EXPECT_GE(Usage(1).generated_tokens, 20);
}

TEST_F(SharedStepsTest, TheOthersTakeTurnsAndNobodyStarves) {
  LoadBoth();
  for (int i = 0; i < 60; ++i) PlanAndCommit();
  for (SequenceId id = 100; id < 130; ++id) EXPECT_GE(Usage(id).generated_tokens, 9) << id;
}

TEST_F(SharedStepsTest, ATokenAndAPromptOfTheOthersFitHoweverCheapAStepIs) {
  LoadBoth();
  scheduler().SetStepCost({.fixed = 1e-6, .per_position = 0.001});
  EXPECT_EQ(PlanAndCommit().num_tokens(), 2);
  Load("busy", 200, 1, 100);
  for (int i = 0; i < 10; ++i) {
    const Step step = PlanAndCommit();
    EXPECT_EQ(CountOf(step, 200), 1);
    EXPECT_EQ(step.num_tokens(), 3);
  }
}

// Time for a position and three quarters.
TEST_F(SharedStepsTest, WhatIsLeftOfAPositionCountsForTheNextStep) {
  LoadBoth();
  scheduler().SetStepCost({.fixed = 0.01, .per_position = 0.004});
  int of_others = 0;
  for (int i = 0; i < 40; ++i) {
    const Step step = PlanAndCommit();
    EXPECT_EQ(CountOf(step, 1), 1);
    EXPECT_THAT(step.num_tokens(), ::testing::AnyOf(2, 3));
    of_others += step.num_tokens() - 1;
  }
  EXPECT_EQ(of_others, 70);
}

TEST_F(SharedStepsTest, APromptOfABusyTenantGoesInSmallChunks) {
  LoadBoth();
  Load("busy", 200, 1, 100);
  for (int i = 0; i < 10; ++i) {
    const Step step = PlanAndCommit();
    EXPECT_LE(step.num_tokens(), kMost);
    EXPECT_GE(CountOf(step, 200), 2) << "half of what others may have is for prompts";
  }
}

TEST_F(SharedStepsTest, APromptOfALightTenantIsComputedAtOnceAndOthersGetTheLessBesideIt) {
  LoadBoth();
  Load("light", 2, 1, 50);
  const Step step = PlanAndCommit();
  EXPECT_EQ(CountOf(step, 2), 50);
  EXPECT_LE(kCost.Of(step.num_tokens()), 1.5 * kCost.Of(51) + 1e-9);
}

TEST_F(SharedStepsTest, StepsStayShortForAWhileAfterItHasGone) {
  LoadBoth();
  PlanAndCommit();
  ASSERT_TRUE(scheduler().Finish(1, FinishReason::kCancelled).ok());
  for (int i = 0; i < 500; ++i) EXPECT_LE(PlanAndCommit().num_tokens(), kMost);
  for (int i = 0; i < 20; ++i) PlanAndCommit();
  EXPECT_EQ(PlanAndCommit().num_tokens(), 30);
}

TEST_F(SharedStepsTest, NoStepGoesAheadWhileItMayComeAgain) {
  options_.steps_ahead = 1;
  LoadBoth();
  const Step with_it = Plan();
  const Step ahead = Plan();
  EXPECT_EQ(CountOf(ahead, 1), 1);
  Commit(with_it);
  Commit(ahead);
  ASSERT_TRUE(scheduler().Finish(1, FinishReason::kCancelled).ok());
  const Step without = Plan();
  EXPECT_FALSE(scheduler().Plan().has_value());
  Load("light", 2, 1);
  EXPECT_EQ(CountOf(Plan(), 2), 1) << "it waits for one step";
  Commit(without);
}

TEST_F(SharedStepsTest, NobodyGetsLessThanALightTenantHas) {
  Load("busy", 100, 30);
  Load("a third as busy", 1, 9);
  PlanAndCommit();
  scheduler().SetStepCost({.fixed = 1e-6, .per_position = 0.001});
  EXPECT_EQ(PlanAndCommit().num_tokens(), 18);
}

TEST_F(SharedStepsTest, ALittleLessThanOthersIsNotLight) {
  Load("busy", 100, 30);
  Load("nearly as busy", 1, 20);
  PlanAndCommit();
  scheduler().SetStepCost(kCost);
  EXPECT_EQ(PlanAndCommit().num_tokens(), 50);
}

TEST_F(SharedStepsTest, NothingIsHeldBackWithoutALightTenant) {
  Load("busy", 100, 30);
  scheduler().SetStepCost(kCost);
  PlanAndCommit();
  EXPECT_EQ(PlanAndCommit().num_tokens(), 30) << "it is alone";
  Load("as busy", 200, 30);
  PlanAndCommit();
  EXPECT_EQ(PlanAndCommit().num_tokens(), 60) << "both have their part";
}

TEST_F(SharedStepsTest, AHigherPriorityIsNotHeldBackForALowerOne) {
  Load("busy", 100, 30, 1, /*priority=*/5);
  Load("light", 1, 1);
  PlanAndCommit();
  scheduler().SetStepCost(kCost);
  EXPECT_EQ(PlanAndCommit().num_tokens(), 31);
}

}  // namespace
}  // namespace sluice
