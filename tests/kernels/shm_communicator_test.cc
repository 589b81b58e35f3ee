#include "kernels/communicator/shm_communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <thread>

#include "kernels/communicator/shm_segment.h"
#include "tests/kernels/communicator_calls.h"
#include "tests/kernels/communicator_ranks.h"

namespace sluice::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Deadline In(absl::Duration duration) { return Deadline::After(duration); }

TEST(JoinShmTest, RefusesOptionsOutOfRange) {
  const std::string name = UniqueGroupName();
  const struct {
    ShmOptions options;
    const char* message;
  } cases[] = {
      {{.name = ""}, "communicator name ''"},
      {{.name = "a/b"}, "communicator name 'a/b'"},
      {{.name = std::string(201, 'x')}, "1 to 200"},
      {{.name = name, .size = 0}, "size 0"},
      {{.name = name, .size = 65}, "1 to 64"},
      {{.name = name, .rank = 2, .size = 2}, "rank 2"},
      {{.name = name, .rank = -1, .size = 2}, "0 to 1"},
      {{.name = name, .slot_bytes = 4095}, "slot_bytes 4095"},
      {{.name = name, .slot_bytes = (std::size_t{1} << 30) + 1}, "4096 to 1073741824"},
  };
  for (const auto& [options, message] : cases) {
    const absl::Status status = JoinShm(options, In(absl::Seconds(1))).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(status.ToString(), HasSubstr(message));
  }
  EXPECT_THAT(SharedMemoryObjectsNamed(name), IsEmpty());
}

TEST(JoinShmTest, NamesTheRankThatDoesNotCome) {
  const std::string name = UniqueGroupName();
  const absl::Status status =
      JoinShm({.name = name, .rank = 0, .size = 2}, In(absl::Milliseconds(50))).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_THAT(status.ToString(), AllOf(HasSubstr("from rank 1"), HasSubstr(name)));
  EXPECT_THAT(SharedMemoryObjectsNamed(name), IsEmpty());
}

// By nothing else can it end.
TEST(JoinShmTest, EndsWhenToldToStop) {
  const std::string name = UniqueGroupName();
  std::stop_source stop;
  absl::Status joined;
  std::thread rank([&] {
    joined = JoinShm({.name = name, .size = 2}, Deadline::Never(), stop.get_token()).status();
  });
  while (SharedMemoryObjectsNamed(name).empty()) std::this_thread::yield();
  stop.request_stop();
  rank.join();
  EXPECT_TRUE(absl::IsCancelled(joined)) << joined;
  EXPECT_THAT(SharedMemoryObjectsNamed(name), IsEmpty());
  joined = JoinShm({.name = name, .size = 2}, Deadline::Never(), stop.get_token()).status();
  EXPECT_TRUE(absl::IsCancelled(joined)) << joined << ", before it begins, too";
  EXPECT_THAT(SharedMemoryObjectsNamed(name), IsEmpty());
}

// The object of a group of two whose ranks are still to come.
std::shared_ptr<ShmSegment> GroupOfTwo(const std::string& name) {
  const ShmOptions defaults;
  return *ShmSegment::Open("/" + name, {2, static_cast<std::uint32_t>(defaults.slot_bytes)});
}

TEST(JoinShmTest, RefusesARankOfAnotherShapeAndKeepsTheObject) {
  const std::string name = UniqueGroupName();
  const auto segment = GroupOfTwo(name);
  for (const ShmOptions& options : {ShmOptions{.name = name, .rank = 2, .size = 3},
                                    ShmOptions{.name = name, .size = 2, .slot_bytes = 4096}}) {
    const absl::Status status = JoinShm(options, In(absl::Seconds(20))).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(status.ToString(), HasSubstr("has layout 1, 2 ranks with slots of 262144 bytes"));
  }
  EXPECT_THAT(SharedMemoryObjectsNamed(name), ElementsAre(name));
  ShmSegment::Unlink("/" + name);
}

TEST(JoinShmTest, RefusesARankThatIsThereAndKeepsTheObject) {
  const std::string name = UniqueGroupName();
  const auto segment = GroupOfTwo(name);
  segment->rank(1).state.Store(kRankJoined);
  const absl::Status status =
      JoinShm({.name = name, .rank = 1, .size = 2}, In(absl::Seconds(20))).status();
  EXPECT_TRUE(absl::IsAlreadyExists(status)) << status;
  EXPECT_THAT(SharedMemoryObjectsNamed(name), ElementsAre(name));
  ShmSegment::Unlink("/" + name);
}

TEST(JoinShmTest, FailsSoonWhereAPeerDiesBeforeAllAreThere) {
  const std::string name = UniqueGroupName();
  const pid_t child = fork();
  if (child == 0) {
    // Killed by the parent while it waits for two more.
    JoinShm({.name = name, .rank = 0, .size = 3}, Deadline::Never()).status().IgnoreError();
    _exit(0);
  }
  const auto segment = [&] {
    while (SharedMemoryObjectsNamed(name).empty()) std::this_thread::yield();
    return *ShmSegment::Open("/" + name, {3, static_cast<std::uint32_t>(ShmOptions{}.slot_bytes)});
  }();
  while (segment->rank(0).state.Load() != kRankJoined) std::this_thread::yield();
  kill(child, SIGKILL);
  const absl::Status status =
      JoinShm({.name = name, .rank = 1, .size = 3}, In(absl::Seconds(20))).status();
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(status.ToString(), AllOf(HasSubstr("rank 0"), HasSubstr("has died")));
  EXPECT_THAT(SharedMemoryObjectsNamed(name), IsEmpty());
}

TEST(JoinShmTest, LeavesNoNameBehindOnceAllHaveJoined) {
  // Looked at by each rank after a call in which all took part, while all are still joined.
  const std::vector<absl::Status> statuses =
      RunRanks({.run_as = RunAs::kProcesses, .size = 3}, [](Communicator& c) {
        absl::Status made = MakeCheckedCall(c, {.kind = CallKind::kAllGather, .bytes = 10});
        const auto left = SharedMemoryObjectsNamed("sluice-test-" + std::to_string(getppid()));
        if (made.ok() && !left.empty()) return absl::InternalError(left.front());
        if (c.rank() == 1) kill(getpid(), SIGKILL);
        return made;
      });
  EXPECT_TRUE(statuses[0].ok()) << statuses[0];
  EXPECT_TRUE(statuses[2].ok()) << statuses[2];
  EXPECT_THAT(SharedMemoryObjectsNamed("sluice-test-" + std::to_string(getpid())), IsEmpty());
}

// Two ranks of which one, played by the test, is there already.
struct HalfAGroup {
  std::string name = UniqueGroupName();
  std::shared_ptr<ShmSegment> segment = GroupOfTwo(name);
  std::unique_ptr<Communicator> rank0;

  HalfAGroup() {
    segment->rank(1).process = ThisProcess();
    segment->rank(1).state.Store(kRankJoined);
    rank0 = *JoinShm({.name = name, .rank = 0, .size = 2}, In(absl::Seconds(20)));
  }
  absl::Status Gather() {
    std::array<std::byte, 8> mine{};
    std::array<std::byte, 16> all{};
    return rank0->AllGather(mine, absl::MakeSpan(all), In(absl::Seconds(20)));
  }
};

TEST(ShmCommunicatorFaultTest, CountersThatCannotBeFailTheCall) {
  HalfAGroup group;
  group.segment->rank(1).written.Store(0x80000000);
  const absl::Status status = group.Gather();
  EXPECT_TRUE(absl::IsInternal(status)) << status;
  EXPECT_THAT(status.ToString(), HasSubstr("rank 1 counts what cannot be"));
  EXPECT_EQ(group.Gather(), status);
}

TEST(ShmCommunicatorFaultTest, AReasonWithoutAnEndAndARankThatIsNoneAreSurvived) {
  {
    HalfAGroup group;
    ShmRank& peer = group.segment->rank(1);
    std::fill(std::begin(peer.give_up_reason), std::end(peer.give_up_reason), 'x');
    group.segment->given_up_by().Store(2);
    const absl::Status status = group.Gather();
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_THAT(status.ToString(), HasSubstr("rank 1 gave up: xxx"));
    EXPECT_LT(status.message().size(), 400u);
  }
  HalfAGroup group;
  group.segment->given_up_by().Store(1'000'000);
  EXPECT_TRUE(absl::IsInternal(group.Gather()));
}

class ShmCommunicatorTest : public ::testing::TestWithParam<RunAs> {
 protected:
  Group Of(int size) const { return {.run_as = GetParam(), .size = size}; }
};

TEST_P(ShmCommunicatorTest, TellsRanksThatTheirCallsDiffer) {
  const auto statuses = RunRanks(Of(2), [](Communicator& c) {
    std::array<std::byte, 8> data{};
    if (c.rank() == 0) return c.Broadcast(absl::MakeSpan(data), 0, In(absl::Seconds(20)));
    return MakeCheckedCall(c, {.kind = CallKind::kAllGather, .bytes = 10});
  });
  EXPECT_TRUE(statuses[0].ok()) << statuses[0];
  EXPECT_TRUE(absl::IsInternal(statuses[1])) << statuses[1];
  EXPECT_THAT(statuses[1].ToString(),
              HasSubstr("AllGather of 10 bytes: rank 0 makes a different call, "
                        "Broadcast of 8 bytes from rank 0"));
}

TEST_P(ShmCommunicatorTest, NoticesAtOnceThatAPeerHasLeft) {
  const absl::Time start = absl::Now();
  const auto statuses = RunRanks(Of(3), [](Communicator& c) {
    if (c.rank() == 2) return absl::OkStatus();
    return MakeCheckedCall(c, {.kind = CallKind::kAllToAll, .bytes = 10});
  });
  for (const int r : {0, 1}) {
    EXPECT_TRUE(absl::IsUnavailable(statuses[r])) << statuses[r];
    EXPECT_THAT(statuses[r].ToString(), HasSubstr("rank 2 has left"));
  }
  EXPECT_LT(absl::Now() - start, absl::Seconds(10));
}

TEST_P(ShmCommunicatorTest, TellsPeersWhoGaveUpAndWhy) {
  const auto statuses = RunRanks(Of(3), [](Communicator& c) {
    if (c.rank() == 1) c.Abort(absl::AbortedError("watchdog barked"));
    return MakeCheckedCall(c, {.kind = CallKind::kAllGather, .bytes = 10});
  });
  EXPECT_EQ(statuses[1], absl::AbortedError("watchdog barked"));
  for (const int r : {0, 2}) {
    EXPECT_TRUE(absl::IsUnavailable(statuses[r])) << statuses[r];
    EXPECT_THAT(statuses[r].ToString(), HasSubstr("rank 1 gave up: ABORTED: watchdog barked"));
  }
}

// Everybody's message is many slots long, so that each has to read in order to be able to write.
TEST_P(ShmCommunicatorTest, DoesNotLockUpWhereMessagesAreFarLongerThanSlots) {
  for (const int size : {2, 4, 8}) {
    const auto statuses = RunRanks(Of(size), [](Communicator& c) {
      absl::Status made;
      for (const CallKind kind : {CallKind::kAllGather, CallKind::kAllToAll}) {
        made.Update(MakeCheckedCall(c, {.kind = kind, .bytes = 100'003, .pattern = 3}));
      }
      return made;
    });
    for (const absl::Status& status : statuses) EXPECT_TRUE(status.ok()) << status;
  }
}

INSTANTIATE_TEST_SUITE_P(RunAs, ShmCommunicatorTest,
                         ::testing::Values(RunAs::kThreads, RunAs::kProcesses),
                         [](const auto& info) {
                           return info.param == RunAs::kThreads ? "Threads" : "Processes";
                         });

}  // namespace
}  // namespace sluice::testing
