// What hangs and what does not, in virtual time.
#include "services/watch/hang_detector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice {
namespace {

using ::testing::HasSubstr;
using State = HangDetector::State;

class HangDetectorTest : public ::testing::Test {
 protected:
  HangDetectorTest() { detector_.Tick(now_); }

  // Lets time pass while the process runs.
  State Pass(absl::Duration time) {
    State state = State::kMoving;
    for (const SteadyTime until = now_ + time; now_ < until;) {
      now_ = now_ + detector_.interval();
      state = detector_.Tick(now_);
    }
    return state;
  }

  // A step that takes so long.
  void Step(int size, absl::Duration time) {
    const uint64_t work = detector_.Begin("step", size, now_);
    if (time >= detector_.interval()) {
      Pass(time);
      time = absl::ZeroDuration();
    }
    detector_.End(work, now_ + time);
  }

  SteadyTime now_ = SteadyTime::FromStart(absl::Seconds(1000));
  HangDetector detector_{absl::Seconds(2)};
};

TEST_F(HangDetectorTest, NothingHangsWhereNothingIsDone) {
  EXPECT_EQ(Pass(absl::Minutes(5)), State::kMoving);
  EXPECT_EQ(detector_.Hanging(), "");
}

TEST_F(HangDetectorTest, WorkHangsBeyondItsBoundAndIsStuckThen) {
  Step(4, absl::Milliseconds(50));
  detector_.Begin("step", 4, now_);
  EXPECT_EQ(Pass(absl::Seconds(2)), State::kMoving);
  EXPECT_EQ(Pass(absl::Milliseconds(500)), State::kHangs);
  EXPECT_THAT(detector_.Hanging(), HasSubstr("step of 4 for 2."));
  EXPECT_EQ(Pass(absl::Seconds(1)), State::kHangs);
  EXPECT_EQ(Pass(absl::Seconds(1)), State::kStuck);
}

TEST_F(HangDetectorTest, WorkThatComesBackMovesAgain) {
  Step(4, absl::Milliseconds(50));
  const uint64_t work = detector_.Begin("step", 4, now_);
  EXPECT_EQ(Pass(absl::Seconds(3)), State::kHangs);
  detector_.End(work, now_);
  EXPECT_EQ(detector_.Tick(now_), State::kMoving);
}

TEST_F(HangDetectorTest, BoundsFollowFromWhatWasMeasured) {
  Step(4, absl::Seconds(1));  // a slow machine
  detector_.Begin("step", 4, now_);
  EXPECT_EQ(Pass(absl::Seconds(10)), State::kMoving);
  EXPECT_EQ(Pass(absl::Seconds(9)), State::kMoving);  // within twice that, as StepTimes has it
  EXPECT_EQ(Pass(absl::Seconds(2)), State::kHangs);
}

TEST_F(HangDetectorTest, LargeWorkMayTakeLonger) {
  Step(4, absl::Milliseconds(500));
  detector_.Begin("step", 64, now_);
  EXPECT_EQ(Pass(absl::Minutes(1)), State::kMoving);
}

TEST_F(HangDetectorTest, WorkOfAnotherNameHasItsOwnBound) {
  Step(4, absl::Seconds(10));
  detector_.End(detector_.Begin("round", 4, now_), now_ + absl::Milliseconds(1));
  detector_.Begin("round", 4, now_);
  EXPECT_EQ(Pass(absl::Seconds(3)), State::kHangs);
}

TEST_F(HangDetectorTest, TimeInWhichTheProcessStoodStillDoesNotCount) {
  Step(4, absl::Milliseconds(50));
  const uint64_t work = detector_.Begin("step", 4, now_);
  Pass(absl::Seconds(1));
  now_ = now_ + absl::Hours(1);  // SIGSTOP to SIGCONT
  EXPECT_EQ(detector_.Tick(now_), State::kMoving);
  detector_.End(work, now_);
  // Nor is it a time that such work has taken.
  detector_.Begin("step", 4, now_);
  EXPECT_EQ(Pass(absl::Minutes(2)), State::kStuck);
}

}  // namespace
}  // namespace sluice
