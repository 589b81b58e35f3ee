#include "kernels/communicator/shm_communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <thread>

#include "kernels/communicator/file_handover.h"
#include "kernels/communicator/shm_segment.h"
#include "tests/kernels/communicator_calls.h"
#include "tests/kernels/communicator_ranks.h"
#include "tests/kernels/testing/test_wiring.h"

namespace sluice::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Deadline In(absl::Duration duration) { return Deadline::After(duration); }

// What JoinShm has handed over with its defaults.
ShmShape ShapeOf(int size) { return {size, static_cast<std::uint32_t>(ShmOptions{}.slot_bytes)}; }

HandoverSpec SpecOf(const std::string& name, int size) {
  return {.name = name,
          .wiring = {},
          .num_ranks = size,
          .layout = ShmSegment::LayoutOf(ShapeOf(size)),
          .describe_layout = ShmSegment::DescribeLayout};
}

TEST(JoinShmTest, RefusesOptionsOutOfRange) {
  const std::string name = UniqueGroupName();
  const struct {
    ShmOptions options;
    const char* message;
  } cases[] = {
      {{.name = ""}, "communicator name ''"},
      {{.name = "a/b"}, "communicator name 'a/b'"},
      {{.name = std::string(101, 'x')}, "1 to 100"},
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
}

TEST(JoinShmTest, NamesTheRankThatDoesNotCome) {
  const std::string name = UniqueGroupName();
  const absl::Status status =
      JoinShm({.name = name, .rank = 0, .size = 2}, In(absl::Milliseconds(50))).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_THAT(status.ToString(), AllOf(HasSubstr("from rank 1"), HasSubstr(name)));
}

// By nothing else can it end.
TEST(JoinShmTest, EndsWhenToldToStop) {
  const std::string name = UniqueGroupName();
  std::stop_source stop;
  absl::Status joined;
  std::thread rank([&] {
    joined = JoinShm({.name = name, .size = 2}, Deadline::Never(), stop.get_token()).status();
  });
  AwaitRankZero(name);
  stop.request_stop();
  rank.join();
  EXPECT_TRUE(absl::IsCancelled(joined)) << joined;
  joined = JoinShm({.name = name, .size = 2}, Deadline::Never(), stop.get_token()).status();
  EXPECT_TRUE(absl::IsCancelled(joined)) << joined << ", before it begins, too";
}

TEST(JoinShmTest, RefusesARankOfAnotherShapeAndGoesOnWaiting) {
  const std::string name = UniqueGroupName();
  absl::Status first;
  std::thread rank(
      [&] { first = JoinShm({.name = name, .size = 2}, In(absl::Seconds(20))).status(); });
  for (const ShmOptions& options :
       {ShmOptions{.name = name, .wiring = {}, .rank = 2, .size = 3},
        ShmOptions{.name = name, .wiring = {}, .rank = 1, .size = 2, .slot_bytes = 4096}}) {
    const absl::Status status = JoinShm(options, In(absl::Seconds(20))).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(status.ToString(),
                HasSubstr("rank 0 has layout 2, 2 ranks with slots of 262144 bytes"));
  }
  const auto right = JoinShm({.name = name, .rank = 1, .size = 2}, In(absl::Seconds(20)));
  EXPECT_TRUE(right.ok()) << right.status();
  rank.join();
  EXPECT_TRUE(first.ok()) << first;
}

TEST(JoinShmTest, RefusesAnotherWiringAndNamesWhatDiffers) {
  const std::string name = UniqueGroupName();
  const WiringIdentity ours = TestWiring();
  absl::Status first;
  std::thread rank([&] {
    first = JoinShm({.name = name, .wiring = ours, .size = 2}, In(absl::Seconds(20))).status();
  });
  const std::pair<WiringIdentity, std::string> others[] = {
      {TestWiring(1, 2), "the wiring nonces differ"},
      {TestWiring(2), "it is wired into epoch 2, expected epoch 1"},
      {*WiringIdentity::Make(ours.nonce, 1, "other"), "its model fingerprint is other"}};
  for (const auto& [other, difference] : others) {
    const absl::Status status =
        JoinShm({.name = name, .wiring = other, .rank = 1, .size = 2}, In(absl::Seconds(20)))
            .status();
    EXPECT_TRUE(absl::IsAborted(status)) << status;
    EXPECT_THAT(status.ToString(), HasSubstr(difference));
  }
  const auto right =
      JoinShm({.name = name, .wiring = ours, .rank = 1, .size = 2}, In(absl::Seconds(20)));
  EXPECT_TRUE(right.ok()) << right.status();
  rank.join();
  EXPECT_TRUE(first.ok()) << first;
}

TEST(JoinShmTest, RefusesARankThatIsThereAndGoesOnWaiting) {
  const std::string name = UniqueGroupName();
  std::array<absl::Status, 3> joined;
  std::array<std::thread, 3> ranks;
  const auto start = [&](int rank) {
    ranks[rank] = std::thread([&, rank] {
      joined[rank] =
          JoinShm({.name = name, .rank = rank, .size = 3}, In(absl::Seconds(20))).status();
    });
  };
  start(0);
  AwaitRankZero(name);
  absl::Status second =
      JoinShm({.name = name, .rank = 0, .size = 3}, In(absl::Seconds(20))).status();
  EXPECT_TRUE(absl::IsAlreadyExists(second)) << second;
  start(1);
  start(2);
  for (std::thread& rank : ranks) rank.join();
  for (const absl::Status& status : joined) EXPECT_TRUE(status.ok()) << status;
}

TEST(JoinShmTest, FailsSoonWhereAPeerDiesBeforeAllAreThere) {
  const std::string name = UniqueGroupName();
  const pid_t child = fork();
  if (child == 0) {
    // Killed by the parent while it waits for rank 2.
    JoinShm({.name = name, .rank = 0, .size = 3}, Deadline::Never()).status().IgnoreError();
    _exit(0);
  }
  AwaitRankZero(name);
  // As rank 2 that has the memory and does not join.
  const auto segment =
      *ShmSegment::Open(*TakeFile(SpecOf(name, 3), 2, In(absl::Seconds(20)), {}), ShapeOf(3), {});
  std::thread killer([&] {
    while (segment->rank(1).state.Load() != kRankJoined) std::this_thread::yield();
    kill(child, SIGKILL);
  });
  const absl::Status status =
      JoinShm({.name = name, .rank = 1, .size = 3}, In(absl::Seconds(20))).status();
  killer.join();
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(status.ToString(), AllOf(HasSubstr("rank 0"), HasSubstr("has died")));
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

// Two ranks of which one is played by the test.
struct HalfAGroup {
  std::string name = UniqueGroupName();
  std::shared_ptr<ShmSegment> segment;
  std::unique_ptr<Communicator> rank0;

  HalfAGroup() {
    std::thread peer([this] {
      const HandoverSpec spec = SpecOf(name, 2);
      segment = *ShmSegment::Open(*TakeFile(spec, 1, In(absl::Seconds(20)), {}), ShapeOf(2), {});
      segment->rank(1).process = ThisProcess();
      segment->rank(1).state.Store(kRankJoined);
      segment->WakeAll();
    });
    rank0 = *JoinShm({.name = name, .rank = 0, .size = 2}, In(absl::Seconds(20)));
    peer.join();
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
