// Deadlines while somebody sets the system's time. By itself, because it replaces the wall clock of
// the whole program.
#include "kernels/deadline.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <thread>

#include "absl/time/clock.h"
#include "kernels/communicator/memory_rendezvous_store.h"
#include "kernels/communicator/shm_communicator.h"
#include "tests/kernels/communicator_ranks.h"

namespace {

std::atomic<int64_t> seconds_ahead{0};

}  // namespace

// Every library's calls come here, since the program's own symbols are found first.
extern "C" int clock_gettime(clockid_t clock, timespec* now) noexcept {
  const long result = syscall(SYS_clock_gettime, clock, now);
  if (result == 0 && clock == CLOCK_REALTIME) now->tv_sec += seconds_ahead.load();
  return static_cast<int>(result);
}

extern "C" int gettimeofday(timeval* now, void*) noexcept {
  timespec precise;
  clock_gettime(CLOCK_REALTIME, &precise);
  *now = {precise.tv_sec, precise.tv_nsec / 1000};
  return 0;
}

namespace sluice::testing {
namespace {

constexpr absl::Duration kHour = absl::Hours(1);

class DeadlineTest : public ::testing::Test {
 protected:
  ~DeadlineTest() override { seconds_ahead = 0; }

  // As an administrator, or a time service, would.
  void SetWallClockAhead(absl::Duration by) { seconds_ahead += absl::ToInt64Seconds(by); }
};

TEST_F(DeadlineTest, TheTestsClockIsTheOneThatIsRead) {
  const absl::Time before = absl::Now();
  SetWallClockAhead(kHour);
  ASSERT_GT(absl::Now() - before, kHour / 2);
}

TEST_F(DeadlineTest, SettingTheTimeLeavesItWhereItIs) {
  const Deadline deadline = Deadline::After(absl::Seconds(60));
  for (const absl::Duration by : {kHour, -2 * kHour}) {
    SetWallClockAhead(by);
    EXPECT_FALSE(deadline.HasPassed());
    EXPECT_LE(deadline.Left(), absl::Seconds(60));
    EXPECT_GT(deadline.Left(), absl::Seconds(30));
  }
}

TEST_F(DeadlineTest, KnowsItsEnds) {
  EXPECT_FALSE(Deadline::Never().HasPassed());
  EXPECT_EQ(Deadline::Never().Left(), absl::InfiniteDuration());
  EXPECT_FALSE(Deadline::After(absl::InfiniteDuration()).HasPassed());
  EXPECT_FALSE(Deadline::After(absl::Hours(24 * 365 * 1000)).HasPassed());
  for (const absl::Duration past : {absl::ZeroDuration(), -kHour, -absl::InfiniteDuration()}) {
    EXPECT_TRUE(Deadline::After(past).HasPassed()) << past;
    EXPECT_EQ(Deadline::After(past).Left(), absl::ZeroDuration());
  }
}

// The first rank is asleep when the clock jumps, and its peer comes after that.
TEST_F(DeadlineTest, AJumpOfTheClockFailsNoCallBetweenRanks) {
  const std::string name = UniqueGroupName();
  const auto join = [&](int rank) {
    return JoinShm({.name = name, .rank = rank, .size = 2}, Deadline::After(absl::Seconds(60)));
  };
  absl::Status first;
  std::thread early([&] {
    const auto communicator = join(0);
    first = communicator.status();
    if (!first.ok()) return;
    std::byte byte{};
    first = (*communicator)->Broadcast({&byte, 1}, 1, Deadline::After(absl::Seconds(60)));
  });
  AwaitRankZero(name);
  SetWallClockAhead(kHour);
  const auto communicator = join(1);
  ASSERT_TRUE(communicator.ok()) << communicator.status();
  SetWallClockAhead(kHour);
  std::byte byte{};
  EXPECT_TRUE((*communicator)->Broadcast({&byte, 1}, 1, Deadline::After(absl::Seconds(60))).ok());
  early.join();
  EXPECT_TRUE(first.ok()) << first;
}

TEST_F(DeadlineTest, AJumpOfTheClockFailsNoRendezvous) {
  MemoryRendezvousStore store;
  absl::StatusOr<std::string> found;
  std::thread waiting([&] { found = store.Get("key", Deadline::After(absl::Seconds(60)), {}); });
  SetWallClockAhead(kHour);
  std::this_thread::yield();
  ASSERT_TRUE(store.Set("key", "value").ok());
  waiting.join();
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(*found, "value");
}

}  // namespace
}  // namespace sluice::testing
