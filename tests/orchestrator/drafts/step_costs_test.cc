#include "orchestrator/drafts/step_costs.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(StepCosts, LiesBetweenWhatWasMeasured) {
  StepCosts costs;
  EXPECT_TRUE(costs.empty());
  costs.Add(1, absl::Milliseconds(10));
  costs.Add(5, absl::Milliseconds(14));
  EXPECT_DOUBLE_EQ(costs.Of(1), 0.010);
  EXPECT_DOUBLE_EQ(costs.Of(3), 0.012);
  EXPECT_DOUBLE_EQ(costs.Of(5), 0.014);
  EXPECT_TRUE(costs.Knows(5));
  EXPECT_FALSE(costs.Knows(3));
}

TEST(StepCosts, MoreRowsThanEverMeasuredSeemFreeUntilTheyAre) {
  StepCosts costs;
  costs.Add(4, absl::Milliseconds(10));
  EXPECT_DOUBLE_EQ(costs.Of(64), 0.010);
  costs.Add(64, absl::Milliseconds(90));
  EXPECT_DOUBLE_EQ(costs.Of(64), 0.090);
  EXPECT_DOUBLE_EQ(costs.Of(34), 0.050);
}

TEST(StepCosts, OneSlowStepCountsLittle) {
  StepCosts costs;
  for (int i = 0; i < 20; ++i) costs.Add(1, absl::Milliseconds(10));
  costs.Add(1, absl::Seconds(5));
  EXPECT_LT(costs.Of(1), 0.015);
}

TEST(StepCosts, ForgetsWhatWasLongAgo) {
  StepCosts costs;
  costs.Add(8, absl::Milliseconds(80));
  for (int i = 0; i <= StepCosts::kForgottenAfter; ++i) costs.Add(1, absl::Milliseconds(10));
  EXPECT_DOUBLE_EQ(costs.Of(8), 0.010);
}

}  // namespace
}  // namespace sluice
