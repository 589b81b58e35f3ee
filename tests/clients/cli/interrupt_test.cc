#include "clients/cli/interrupt.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(InterruptTest, EndsWhatIsInProgress) {
  Interrupt interrupt;
  int ended = 0;
  const Interrupt::Handler first(interrupt, [&ended] { ++ended; });
  const Interrupt::Handler second(interrupt, [&ended] { ++ended; });
  EXPECT_FALSE(interrupt.requested());
  EXPECT_TRUE(interrupt.Request(130));
  EXPECT_EQ(ended, 2);
  EXPECT_EQ(interrupt.exit_code(), 130);
}

TEST(InterruptTest, SaysThatNothingIsInProgress) {
  Interrupt interrupt;
  {
    const Interrupt::Handler gone(interrupt, [] { FAIL(); });
  }
  EXPECT_FALSE(interrupt.Request(130));
  EXPECT_FALSE(interrupt.requested());
}

TEST(InterruptTest, EndsAtOnceWhatBeginsAfterTheRequest) {
  Interrupt interrupt;
  const Interrupt::Handler first(interrupt, [] {});
  ASSERT_TRUE(interrupt.Request(130));
  bool ended = false;
  const Interrupt::Handler late(interrupt, [&ended] { ended = true; });
  EXPECT_TRUE(ended);
}

TEST(InterruptTest, HandlesASecondRequestOnlyAfterClear) {
  Interrupt interrupt;
  int ended = 0;
  const Interrupt::Handler handler(interrupt, [&ended] { ++ended; });
  ASSERT_TRUE(interrupt.Request(130));
  EXPECT_FALSE(interrupt.Request(143));
  EXPECT_EQ(interrupt.exit_code(), 130);
  interrupt.Clear();
  EXPECT_TRUE(interrupt.Request(143));
  EXPECT_EQ(interrupt.exit_code(), 143);
  EXPECT_EQ(ended, 2);
}

}  // namespace
}  // namespace sluice
