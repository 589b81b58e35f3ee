#include "kernels/communicator/sigpipe_guard.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>

namespace sluice {
namespace {

// Writes to a pipe that nobody reads; the error number, where the process survives.
int WriteToNobody() {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  close(ends[0]);
  errno = 0;
  const ssize_t written = write(ends[1], "x", 1);
  const int error = written < 0 ? errno : 0;
  close(ends[1]);
  return error;
}

bool Blocked() {
  sigset_t mask;
  pthread_sigmask(SIG_BLOCK, nullptr, &mask);
  return sigismember(&mask, SIGPIPE) == 1;
}

TEST(SigpipeGuardTest, TurnsTheSignalIntoTheErrorOfTheWrite) {
  {
    const SigpipeGuard guard;
    const SigpipeGuard nested;
    EXPECT_EQ(WriteToNobody(), EPIPE);
  }
  EXPECT_FALSE(Blocked());
}

TEST(SigpipeGuardTest, LeavesASignalThatWasBlockedBefore) {
  const SigpipeGuard outer;
  { const SigpipeGuard guard; }
  EXPECT_TRUE(Blocked());
}

TEST(SigpipeGuardDeathTest, WithoutItTheProcessEnds) {
  EXPECT_EXIT(WriteToNobody(), ::testing::KilledBySignal(SIGPIPE), "");
}

}  // namespace
}  // namespace sluice
