#include "orchestrator/engine/service_rate.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

class ServiceRateTest : public ::testing::Test {
 protected:
  void Observe(absl::Duration later, uint64_t num_started, int32_t num_waiting) {
    now_ = now_ + later;
    rate_.Observe(now_, num_started, num_waiting);
  }

  SteadyTime now_ = SteadyTime::FromStart(absl::Seconds(5));
  ServiceRate rate_;
};

TEST_F(ServiceRateTest, KnowsNothingAtFirstButThatNobodyAheadMeansNoTime) {
  EXPECT_EQ(rate_.TimeFor(1), std::nullopt);
  EXPECT_EQ(rate_.TimeFor(0), absl::ZeroDuration());
}

TEST_F(ServiceRateTest, IsTheRateOfStartsWhileSomebodyWaits) {
  Observe(absl::ZeroDuration(), 0, 100);
  for (int i = 1; i <= 20; ++i) Observe(absl::Milliseconds(500), 2 * i, 100);
  EXPECT_NEAR(absl::ToDoubleSeconds(*rate_.TimeFor(8)), 2, 0.05);
}

TEST_F(ServiceRateTest, TimesInWhichNobodyWaitedDoNotCount) {
  Observe(absl::ZeroDuration(), 0, 100);
  for (int i = 1; i <= 20; ++i) Observe(absl::Milliseconds(500), 2 * i, i < 20 ? 100 : 0);
  Observe(absl::Hours(1), 50, 0);
  Observe(absl::Hours(1), 60, 100);
  EXPECT_NEAR(absl::ToDoubleSeconds(*rate_.TimeFor(8)), 2, 0.05);
}

TEST_F(ServiceRateTest, FollowsWhatBecomesSlower) {
  Observe(absl::ZeroDuration(), 0, 100);
  uint64_t started = 0;
  for (int i = 0; i < 20; ++i) Observe(absl::Milliseconds(500), started += 10, 100);
  for (int i = 0; i < 40; ++i) Observe(absl::Seconds(1), started += 1, 100);
  EXPECT_NEAR(absl::ToDoubleSeconds(*rate_.TimeFor(1)), 1, 0.3);
}

}  // namespace
}  // namespace sluice
