#include "services/process/stop_signal.h"

#include <gtest/gtest.h>

#include <thread>

namespace sluice {
namespace {

TEST(StopSignal, IsNotSetByWaiting) {
  StopSignal stop;
  EXPECT_FALSE(stop.WaitFor(absl::ZeroDuration()));
  EXPECT_FALSE(stop.WaitFor(absl::Milliseconds(1)));
  EXPECT_FALSE(stop.is_set());
}

TEST(StopSignal, EndsTheWaitsThatAreAndThoseThatCome) {
  StopSignal stop;
  std::thread setter([&stop] { stop.Set(); });
  EXPECT_TRUE(stop.WaitFor(absl::Hours(1)));
  EXPECT_TRUE(stop.WaitFor(absl::Hours(1)));
  EXPECT_TRUE(stop.is_set());
  setter.join();
}

}  // namespace
}  // namespace sluice
