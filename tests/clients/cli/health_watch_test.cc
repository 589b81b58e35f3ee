// Whom the watch takes for stopped, and whom not.
#include "clients/cli/health_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <string>

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

}  // namespace
}  // namespace sluice::testing
