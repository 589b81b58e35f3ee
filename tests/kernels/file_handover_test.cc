#include "kernels/communicator/file_handover.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/kernels/communicator_ranks.h"
#include "tests/kernels/testing/test_wiring.h"

namespace sluice::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr absl::Duration kLong = absl::Seconds(20);

HandoverSpec NewSpec(int num_ranks) {
  return {.name = UniqueGroupName(),
          .wiring = TestWiring(),
          .num_ranks = num_ranks,
          .layout = 7,
          .describe_layout = [](std::uint64_t layout) { return absl::StrCat("layout ", layout); }};
}

// Rank 0 of a group, which hands over a file of its own.
class RankZero {
 public:
  explicit RankZero(const HandoverSpec& spec, absl::Duration timeout = kLong)
      : spec_(spec),
        file_(memfd_create("file", MFD_CLOEXEC)),
        handover_(*FileHandover::Listen(spec, file_.get())),
        thread_([this, timeout] {
          served_ = handover_->Serve(Deadline::After(timeout), stop_.get_token(),
                                     [] { return absl::OkStatus(); });
        }) {}
  ~RankZero() { End().IgnoreError(); }

  absl::Status End() {
    if (thread_.joinable()) thread_.join();
    return served_;
  }
  void Stop() { stop_.request_stop(); }
  ino_t inode() const { return InodeOf(file_.get()); }
  static ino_t InodeOf(int file) {
    struct stat status {};
    fstat(file, &status);
    return status.st_ino;
  }

 private:
  const HandoverSpec spec_;
  const FileDescriptor file_;
  const std::unique_ptr<FileHandover> handover_;
  std::stop_source stop_;
  absl::Status served_;
  std::thread thread_;
};

absl::StatusOr<FileDescriptor> Take(const HandoverSpec& spec, int rank,
                                    absl::Duration timeout = kLong) {
  return TakeFile(spec, rank, Deadline::After(timeout), {});
}

TEST(FileHandoverTest, GivesTheFileToEveryRankOnce) {
  const HandoverSpec spec = NewSpec(3);
  RankZero zero(spec);
  const auto second = Take(spec, 2);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(RankZero::InodeOf(second->get()), zero.inode());
  const absl::Status again = Take(spec, 2).status();
  EXPECT_TRUE(absl::IsAlreadyExists(again)) << again;
  EXPECT_THAT(again.ToString(), HasSubstr("rank 2 has already joined"));
  const auto first = Take(spec, 1);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(RankZero::InodeOf(first->get()), zero.inode());
  EXPECT_TRUE(zero.End().ok());
}

TEST(FileHandoverTest, WaitsForARankZeroThatComesLater) {
  const HandoverSpec spec = NewSpec(2);
  absl::Status taken;
  std::thread early([&] { taken = Take(spec, 1).status(); });
  RankZero zero(spec);
  early.join();
  EXPECT_TRUE(taken.ok()) << taken;
  EXPECT_TRUE(zero.End().ok());
}

TEST(FileHandoverTest, RefusesWhoeverIsNoRankOfTheGroupAndSaysWhy) {
  const HandoverSpec spec = NewSpec(2);
  RankZero zero(spec);
  const auto expect_refused = [&](HandoverSpec other, int rank, absl::StatusCode code,
                                  const std::string& why) {
    const absl::Status refused = Take(other, rank).status();
    EXPECT_EQ(refused.code(), code) << refused;
    EXPECT_THAT(refused.ToString(), HasSubstr(why));
  };
  HandoverSpec other = spec;
  other.wiring = TestWiring(1, 2);
  expect_refused(other, 1, absl::StatusCode::kAborted, "the wiring nonces differ");
  other.wiring = TestWiring(3);
  expect_refused(other, 1, absl::StatusCode::kAborted, "epoch 3, expected epoch 1");
  other = spec;
  other.layout = 8;
  expect_refused(other, 1, absl::StatusCode::kInvalidArgument,
                 "rank 0 has layout 7, rank 1 expects layout 8");
  expect_refused(spec, 0, absl::StatusCode::kInvalidArgument, "rank 0; accepted: 1 to 1");
  expect_refused(spec, 2, absl::StatusCode::kInvalidArgument, "rank 2; accepted: 1 to 1");
  EXPECT_TRUE(Take(spec, 1).ok());
  EXPECT_TRUE(zero.End().ok());
}

TEST(FileHandoverTest, NamesWhoDidNotComeAndWhoWasTurnedAway) {
  const HandoverSpec spec = NewSpec(3);
  RankZero zero(spec, absl::Milliseconds(300));
  HandoverSpec other = spec;
  other.wiring = TestWiring(1, 2);
  EXPECT_FALSE(Take(other, 1).ok());
  const absl::Status served = zero.End();
  EXPECT_TRUE(absl::IsDeadlineExceeded(served)) << served;
  EXPECT_THAT(served.ToString(), AllOf(HasSubstr("from rank 1, 2"), HasSubstr("turned away"),
                                       HasSubstr("the wiring nonces differ")));
  const absl::Status late = Take(spec, 1, absl::Milliseconds(20)).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(late)) << late;
}

TEST(FileHandoverTest, EndsWhenToldToStop) {
  const HandoverSpec spec = NewSpec(2);
  RankZero zero(spec, absl::InfiniteDuration());
  zero.Stop();
  EXPECT_TRUE(absl::IsCancelled(zero.End()));
  std::stop_source stop;
  absl::Status taken;
  std::thread rank(
      [&] { taken = TakeFile(NewSpec(2), 1, Deadline::Never(), stop.get_token()).status(); });
  stop.request_stop();
  rank.join();
  EXPECT_TRUE(absl::IsCancelled(taken)) << taken;
}

TEST(FileHandoverTest, IsOneForAName) {
  const HandoverSpec spec = NewSpec(2);
  RankZero zero(spec);
  EXPECT_TRUE(absl::IsAlreadyExists(FileHandover::Listen(spec, 0).status()));
  zero.Stop();
}

FileDescriptor ConnectTo(const std::string& name) {
  FileDescriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  EXPECT_EQ(connect(socket.get(), reinterpret_cast<const sockaddr*>(&address),
                    static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())),
            0);
  return socket;
}

TEST(FileHandoverTest, SilentAndBabblingConnectionsHarmNoRank) {
  const HandoverSpec spec = NewSpec(2);
  RankZero zero(spec);
  std::vector<FileDescriptor> strangers;
  for (int i = 0; i < 20; ++i) strangers.push_back(ConnectTo(spec.name));
  for (std::size_t size : {1, 100, 4096}) {
    strangers.push_back(ConnectTo(spec.name));
    EXPECT_EQ(send(strangers.back().get(), std::string(size, 'x').data(), size, 0),
              static_cast<ssize_t>(size));
  }
  EXPECT_TRUE(Take(spec, 1).ok());
  EXPECT_TRUE(zero.End().ok());
}

// In a process of another user: whether `body` returned true there.
bool AsAnotherUser(const std::function<bool()>& body) {
  const pid_t child = fork();
  if (child == 0) _exit(setgid(65534) == 0 && setuid(65534) == 0 && body() ? 0 : 1);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(FileHandoverTest, RefusesAnotherUserThoughItKnowsAll) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  const HandoverSpec spec = NewSpec(2);
  const FileDescriptor file(memfd_create("file", MFD_CLOEXEC));
  const auto handover = *FileHandover::Listen(spec, file.get());
  EXPECT_TRUE(AsAnotherUser([&] {
    // Forked before the thread of rank 0: what it has of it is a copy.
    return absl::IsDeadlineExceeded(Take(spec, 1, absl::Milliseconds(100)).status());
  }));
  const absl::Status served =
      handover->Serve(Deadline::After(absl::Milliseconds(50)), {}, [] { return absl::OkStatus(); });
  EXPECT_THAT(served.ToString(), HasSubstr("a process of user 65534"));
}

}  // namespace
}  // namespace sluice::testing
