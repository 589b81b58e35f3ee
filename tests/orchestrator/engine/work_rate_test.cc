#include "orchestrator/engine/work_rate.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

double Seconds(const WorkRate& rate, int num_positions, int num_tokens) {
  return absl::ToDoubleSeconds(rate.TimeFor(num_positions, num_tokens));
}

TEST(WorkRate, WhatWasNeverSeenTakesNoTime) {
  WorkRate rate;
  EXPECT_EQ(rate.TimeFor(1000, 1000), absl::ZeroDuration());
  rate.Observe(8, 8, absl::Milliseconds(10));
  EXPECT_EQ(rate.TimeFor(1000, 0), absl::ZeroDuration()) << "no prompt was seen";
  EXPECT_DOUBLE_EQ(Seconds(rate, 1000, 100), 1);
}

TEST(WorkRate, PromptsAndTokensAddUp) {
  WorkRate rate;
  for (int i = 0; i < 500; ++i) {
    rate.Observe(1, 1000, absl::Milliseconds(20));
    rate.Observe(4, 4, absl::Milliseconds(20));
  }
  EXPECT_NEAR(Seconds(rate, 5000, 10), 0.1 + 0.2, 1e-9);
}

TEST(WorkRate, AStepThatWasHeldUpMovesLittleAndWhatStaysSlowerCounts) {
  WorkRate rate;
  for (int i = 0; i < 100; ++i) rate.Observe(4, 4, absl::Milliseconds(10));
  rate.Observe(4, 4, absl::Minutes(1));
  EXPECT_LT(Seconds(rate, 0, 100), 1.1);
  for (int i = 0; i < 500; ++i) rate.Observe(4, 4, absl::Milliseconds(100));
  EXPECT_NEAR(Seconds(rate, 0, 100), 10, 0.2);
}

}  // namespace
}  // namespace sluice
