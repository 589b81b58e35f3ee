#include "kernels/communicator/process_identity.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace sluice {
namespace {

class ProcessIdentityTest : public ::testing::Test {
 protected:
  // A child that has told its identity and then sleeps until it is killed.
  void SetUp() override {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    child_ = fork();
    if (child_ == 0) {
      const ProcessIdentity self = ThisProcess();
      if (write(ends[1], &self, sizeof(self)) != sizeof(self)) _exit(1);
      while (true) pause();
    }
    ASSERT_EQ(read(ends[0], &identity_, sizeof(identity_)), ssize_t{sizeof(identity_)});
    close(ends[0]);
    close(ends[1]);
  }
  void TearDown() override {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }

  pid_t child_ = -1;
  ProcessIdentity identity_;
};

TEST_F(ProcessIdentityTest, SeesTheLivingAlive) {
  EXPECT_EQ(identity_.pid, child_);
  EXPECT_FALSE(HasDied(identity_));
  EXPECT_FALSE(HasDied(ThisProcess()));
}

TEST_F(ProcessIdentityTest, SeesAKilledProcessThatNobodyHasReaped) {
  kill(child_, SIGKILL);
  siginfo_t info;
  ASSERT_EQ(waitid(P_PID, child_, &info, WEXITED | WNOWAIT), 0);
  EXPECT_TRUE(HasDied(identity_));
}

TEST_F(ProcessIdentityTest, SeesAProcessThatIsGone) {
  kill(child_, SIGKILL);
  waitpid(child_, nullptr, 0);
  EXPECT_TRUE(HasDied(identity_));
}

TEST_F(ProcessIdentityTest, SeesThatAPidBelongsToAnotherProcessNow) {
  ProcessIdentity earlier = identity_;
  earlier.start_ticks -= 1;
  EXPECT_TRUE(HasDied(earlier));
}

TEST_F(ProcessIdentityTest, LeavesOtherPidNamespacesAlone) {
  ProcessIdentity elsewhere = identity_;
  elsewhere.start_ticks -= 1;
  elsewhere.pid_namespace += 1;
  EXPECT_FALSE(HasDied(elsewhere));
}

}  // namespace
}  // namespace sluice
