#include "services/shard/step_clock.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

SteadyTime At(int microseconds) { return SteadyTime::FromStart(absl::Microseconds(microseconds)); }

TEST(StepClock, AddsUpStepsAndTheGapsBetweenThem) {
  StepClock clock;
  clock.Begin();
  clock.StepBegins(At(100), false, absl::Microseconds(9));  // nothing came before
  clock.StepEnds(At(150));
  clock.StepBegins(At(153), false, absl::ZeroDuration());
  clock.StepEnds(At(200));
  EXPECT_EQ(clock.times().busy_ns, 97'000u);
  EXPECT_EQ(clock.times().gap_ns, 3'000u);
  EXPECT_EQ(clock.times().gap_computed_ns, 0u);
}

TEST(StepClock, CountsOfAGapWhatOthersComputedInIt) {
  StepClock clock;
  clock.Begin();
  clock.StepBegins(At(100), false, absl::ZeroDuration());
  clock.StepEnds(At(150));
  clock.StepBegins(At(160), false, absl::Microseconds(7));
  clock.StepEnds(At(200));
  clock.StepBegins(At(203), false, absl::Microseconds(7));  // most of it beside the step before
  clock.StepEnds(At(300));
  EXPECT_EQ(clock.times().gap_ns, 13'000u);
  EXPECT_EQ(clock.times().gap_computed_ns, 10'000u);
}

TEST(StepClock, CountsNoTimeInWhichNothingWasWanted) {
  StepClock clock;
  clock.Begin();
  clock.StepBegins(At(100), true, absl::Microseconds(7));
  clock.StepEnds(At(150));
  clock.StepBegins(At(900), true, absl::Microseconds(7));
  clock.StepEnds(At(950));
  clock.Begin();  // another session
  clock.StepBegins(At(2000), false, absl::Microseconds(7));
  clock.StepEnds(At(2010));
  EXPECT_EQ(clock.times().busy_ns, 110'000u);
  EXPECT_EQ(clock.times().gap_ns, 0u);
  EXPECT_EQ(clock.times().gap_computed_ns, 0u);
}

}  // namespace
}  // namespace sluice
