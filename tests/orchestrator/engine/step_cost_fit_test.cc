#include "orchestrator/engine/step_cost_fit.h"

#include <gtest/gtest.h>

#include <random>

namespace sluice {
namespace {

TEST(StepCostFit, KnowsNothingOfOneSizeAlone) {
  StepCostFit fit;
  EXPECT_FALSE(fit.current().known());
  for (int i = 0; i < 100; ++i) fit.Observe(4, absl::Milliseconds(3));
  EXPECT_FALSE(fit.current().known());
}

TEST(StepCostFit, FindsTheLineInNoise) {
  StepCostFit fit;
  std::mt19937 random(7);
  std::uniform_int_distribution<int> positions(1, 64);
  std::uniform_real_distribution<double> noise(0.9, 1.1);
  for (int i = 0; i < 4000; ++i) {
    const int n = positions(random);
    fit.Observe(n, absl::Milliseconds((2 + 0.25 * n) * noise(random)));
  }
  EXPECT_NEAR(fit.current().fixed, 0.002, 0.0003);
  EXPECT_NEAR(fit.current().per_position, 0.00025, 0.00003);
}

TEST(StepCostFit, RemembersSizesThatAreSeenNoMore) {
  StepCostFit fit;
  for (int i = 0; i < 20; ++i) fit.Observe(1, absl::Milliseconds(3));
  for (int i = 0; i < 10'000; ++i) fit.Observe(64, absl::Milliseconds(66));
  EXPECT_NEAR(fit.current().fixed, 0.002, 1e-4);
  EXPECT_NEAR(fit.current().per_position, 0.001, 1e-5);
}

TEST(StepCostFit, AStepThatWasHeldUpMovesLittle) {
  StepCostFit fit;
  for (int i = 0; i < 200; ++i) fit.Observe(1 + i % 8, absl::Milliseconds(2 + (1 + i % 8)));
  fit.Observe(1, absl::Seconds(5));
  EXPECT_NEAR(fit.current().Of(1), 0.003, 0.001);
}

TEST(StepCostFit, FollowsAMachineThatBecomesSlower) {
  StepCostFit fit;
  for (int i = 0; i < 2000; ++i) fit.Observe(1 + i % 8, absl::Milliseconds(2 + (1 + i % 8)));
  for (int i = 0; i < 4000; ++i) fit.Observe(1 + i % 8, 2 * absl::Milliseconds(2 + (1 + i % 8)));
  EXPECT_NEAR(fit.current().fixed, 0.004, 2e-4);
  EXPECT_NEAR(fit.current().per_position, 0.002, 1e-4);
}

TEST(StepCostFit, SizesOutOfRangeDoNotCount) {
  StepCostFit fit;
  for (int i = 0; i < 100; ++i) {
    fit.Observe(0, absl::Milliseconds(1));
    fit.Observe(1 << 20, absl::Milliseconds(9));
    fit.Observe(1, absl::Milliseconds(1));
  }
  EXPECT_FALSE(fit.current().known());
}

}  // namespace
}  // namespace sluice
