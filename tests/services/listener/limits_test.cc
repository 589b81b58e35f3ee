#include "services/listener/limits.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

namespace sluice {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

// What one connection and one stream hold in gRPC, at most.
uint64_t Held(const ListenerLimits& limits) {
  return static_cast<uint64_t>(limits.connections) * (64 << 10) +
         static_cast<uint64_t>(limits.streams) * (16 << 10) + limits.held_bytes;
}

TEST(ListenerLimits, LeaveThreeQuartersOfTheMemoryToTheProcess) {
  for (const uint64_t memory : {64 * kMiB, 256 * kMiB, 512 * kMiB, 2048 * kMiB}) {
    EXPECT_LE(Held(LimitsFor(memory, 1 << 20)), memory / 4) << memory;
  }
}

TEST(ListenerLimits, FollowTheMemoryUpToAGibibyte) {
  const ListenerLimits chart = LimitsFor(512 * kMiB, 1 << 20);
  EXPECT_EQ(chart.held_bytes, 64 * kMiB);
  EXPECT_EQ(chart.message_bytes, static_cast<int>(32 * kMiB));
  EXPECT_EQ(chart.connections, 512);
  EXPECT_EQ(chart.streams, 2048);
  const ListenerLimits large = LimitsFor(4096 * kMiB, 1 << 20);
  EXPECT_EQ(large.message_bytes, static_cast<int>(64 * kMiB));
  EXPECT_EQ(LimitsFor(uint64_t{1} << 50, 1 << 20).held_bytes, large.held_bytes);
}

TEST(ListenerLimits, NeverNeedMoreDescriptorsThanThereAre) {
  EXPECT_EQ(LimitsFor(uint64_t{1} << 40, 1024).connections, 448);
  EXPECT_EQ(LimitsFor(uint64_t{1} << 40, 0).connections, 16);
}

TEST(ListenerLimits, DescriptorsAreRaisedAsFarAsAllowed) {
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit lower = {.rlim_cur = before.rlim_max / 2, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &lower), 0);
  RaiseDescriptorLimit();
  rlimit after = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &after), 0);
  EXPECT_EQ(after.rlim_cur, before.rlim_max);
  setrlimit(RLIMIT_NOFILE, &before);
}

}  // namespace
}  // namespace sluice
