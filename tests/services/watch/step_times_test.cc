// When a step counts as hanging.
#include "services/watch/step_times.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

constexpr absl::Duration kLeast = absl::Seconds(2);

TEST(StepTimes, GivesTheFirstStepsTime) {
  const StepTimes times(kLeast);
  EXPECT_EQ(times.Bound(1), absl::Seconds(30));
  EXPECT_EQ(times.Bound(64), absl::Seconds(30));
}

TEST(StepTimes, GivesLargeStepsMoreTimeAtFirst) {
  const StepTimes times(kLeast);
  EXPECT_EQ(times.Bound(128), absl::Seconds(60));
  EXPECT_EQ(times.Bound(512), absl::Seconds(240));
  EXPECT_EQ(times.Bound(16 << 20), absl::Seconds(240));
}

TEST(StepTimes, NeverBindsQuickStepsToLessThanWasAskedFor) {
  StepTimes times(kLeast);
  times.Completed(1, absl::Milliseconds(1));
  EXPECT_EQ(times.Bound(1), kLeast);
}

TEST(StepTimes, GivesSlowStepsSeveralTimesWhatTheyTake) {
  StepTimes times(kLeast);
  times.Completed(16, absl::Seconds(1));
  EXPECT_EQ(times.Bound(16), absl::Seconds(20));  // it may be nearly twice as large
  EXPECT_EQ(times.Bound(1), absl::Seconds(10));
}

TEST(StepTimes, GrowsInProportionForStepsLargerThanAnySeen) {
  StepTimes times(kLeast);
  times.Completed(16, absl::Seconds(1));
  EXPECT_EQ(times.Bound(512), absl::Seconds(1) * 10 * 64);
  times.Completed(512, absl::Seconds(4));
  EXPECT_EQ(times.Bound(512), absl::Seconds(80));
}

TEST(StepTimes, ForgetsASlowStepInTheEnd) {
  StepTimes times(kLeast);
  times.Completed(4, absl::Seconds(10));
  const absl::Duration at_once = times.Bound(4);
  for (int i = 0; i < 1000; ++i) times.Completed(4, absl::Milliseconds(1));
  EXPECT_GT(at_once, absl::Seconds(100));
  EXPECT_EQ(times.Bound(4), kLeast);
}

TEST(StepTimes, IsMorePatientAfterEachStepThatWasGivenUp) {
  StepTimes times(kLeast);
  times.Completed(1, absl::Milliseconds(1));
  times.GaveUp();
  times.GaveUp();
  EXPECT_EQ(times.Bound(1), kLeast * 4);
  times.Completed(1, absl::Milliseconds(1));
  EXPECT_EQ(times.Bound(1), kLeast);
}

TEST(StepTimes, NeverEndsWhereNothingCountsAsHanging) {
  StepTimes times(absl::InfiniteDuration());
  EXPECT_EQ(times.Bound(1), absl::InfiniteDuration());
  times.Completed(1, absl::Milliseconds(1));
  EXPECT_EQ(times.Bound(1), absl::InfiniteDuration());
}

}  // namespace
}  // namespace sluice
