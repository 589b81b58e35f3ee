// Whom the watch takes for stopped, and whom not.
#include "clients/cli/health_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <vector>

#include "tests/clients/cli/fake_pipeline.h"
#include "tests/services/model/model_folder.h"

namespace sluice::testing {
namespace {

constexpr absl::Duration kHangTimeout = absl::Milliseconds(50);

// Listens and answers nobody, as a process does that was stopped.
class Stopped {
 public:
  explicit Stopped(const std::string& path) : fd_(socket(AF_UNIX, SOCK_STREAM, 0)) {
    sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = {}};
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(listen(fd_, 8), 0);
  }
  ~Stopped() { close(fd_); }

 private:
  const int fd_;
};

// Waits for news without end, or looks once.
std::vector<SilentProcess> Next(HealthWatch& watch, bool wait) {
  pollfd fd = {watch.fd(), POLLIN, 0};
  poll(&fd, 1, wait ? -1 : 0);
  return watch.TakeSilent();
}

TEST(HealthWatchTest, NamesWhatDoesNotAnswerAndNothingElse) {
  const TempFolder folder;
  const Stopped stopped(folder.PathOf("stopped"));
  FakePipeline hangs(DefaultAnswers());  // says NOT_SERVING: it sees to itself
  hangs.SetServing(false);
  HealthWatch watch({{"stopped", "unix:" + folder.PathOf("stopped")},
                     {"hangs", hangs.endpoint()},
                     {"starting", "unix:" + folder.PathOf("nobody")}},
                    kHangTimeout);
  watch.Started("hangs", 11);
  watch.Started("starting", 12);
  watch.Started("stopped", 13);
  for (int i = 0; i < 3; ++i) {
    for (const SilentProcess& silent : Next(watch, /*wait=*/true)) {
      EXPECT_EQ(silent.name, "stopped");
      EXPECT_EQ(silent.pid, 13);
    }
  }
}

TEST(HealthWatchTest, NobodyIsSilentBeforeItIsStarted) {
  const TempFolder folder;
  const Stopped stopped(folder.PathOf("stopped"));
  const Stopped other(folder.PathOf("other"));
  HealthWatch watch({{"stopped", "unix:" + folder.PathOf("stopped")},
                     {"other", "unix:" + folder.PathOf("other")}},
                    kHangTimeout);
  watch.Started("other", 2);
  // By then the first was asked for as long.
  for (int i = 0; i < 2; ++i) {
    for (const SilentProcess& silent : Next(watch, /*wait=*/true)) EXPECT_EQ(silent.pid, 2);
  }
}

// A process of its own that does nothing, or nothing but compute.
class Child {
 public:
  explicit Child(bool computes) : pid_(fork()) {
    if (pid_ != 0) return;
    for (volatile int i = 0;; ++i) {
      if (!computes) pause();
    }
  }
  ~Child() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }

 private:
  const pid_t pid_;
};

TEST(HealthWatchTest, OneThatComputesIsWaitedForLonger) {
  const TempFolder folder;
  const Stopped stopped(folder.PathOf("stopped"));
  const Stopped busy(folder.PathOf("busy"));
  const Child idles(/*computes=*/false), computes(/*computes=*/true);
  HealthWatch watch(
      {{"stopped", "unix:" + folder.PathOf("stopped")}, {"busy", "unix:" + folder.PathOf("busy")}},
      8 * kHangTimeout);
  watch.Started("stopped", idles.pid());
  watch.Started("busy", computes.pid());
  std::vector<std::string> names;
  while (names.empty() || names.back() != "busy") {
    for (const SilentProcess& silent : Next(watch, /*wait=*/true)) names.push_back(silent.name);
  }
  // It is waited for in the end no more; the other has been named for that long.
  EXPECT_GE(names.size(), 3u);
}

}  // namespace
}  // namespace sluice::testing
