// The supervisor with shell scripts for processes. A script says what it did by writing to a pipe
// (a FIFO) that the test reads, so nothing here depends on timing.
#include "clients/cli/supervisor.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "clients/cli/event_fd.h"
#include "tests/services/model/model_folder.h"

namespace sluice::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

bool IsGone(pid_t pid) { return kill(pid, 0) != 0 && errno == ESRCH; }

class SupervisorTest : public ::testing::Test {
 protected:
  ProcessSpec Script(const std::string& name, const std::string& body) {
    const std::string path = folder_.Write(name, "#!/bin/sh\n" + body + "\n");
    EXPECT_EQ(chmod(path.c_str(), 0700), 0);
    return {.name = name, .argv = {path}};
  }

  // A script that says when it is up and then waits; `on_sigterm` is what it does at SIGTERM.
  ProcessSpec Waiter(const std::string& name, const std::string& on_sigterm = "exit 0") {
    const ProcessSpec spec = Script(name, "trap '" + on_sigterm +
                                              "' TERM; true 2>/dev/null >$0.up; while :; do read "
                                              "-r line <$0.never; done 2>/dev/null");
    for (const char* fifo : {".up", ".never"}) {
      EXPECT_EQ(mkfifo((spec.argv[0] + fifo).c_str(), 0600), 0);
    }
    return spec;
  }

  // Waits for a Waiter's word; without it the Waiter waits.
  static void WaitUntilUp(const ProcessSpec& waiter) {
    close(open((waiter.argv[0] + ".up").c_str(), O_RDONLY));
  }

  // Options that note what happens; pauses are as short as can be.
  SupervisorOptions Options(std::vector<ProcessSpec> processes) {
    return {.processes = std::move(processes),
            .stop_fd = stop_.fd(),
            .ready_fd = ready_.fd(),
            .on_start =
                [this](const std::string& name, pid_t pid) {
                  pids_[name].push_back(pid);
                  OnStart(name);
                },
            .on_end = [this](const ProcessEnd& end) { ends_.push_back(end); },
            .on_ready = [this] { ++readies_; },
            .first_pause = absl::Milliseconds(1),
            .longest_pause = absl::Milliseconds(4)};
  }

  // Stops once `process` was started `times` times.
  void StopAtStart(const std::string& process, size_t times) {
    stop_at_process_ = process;
    stop_at_times_ = times;
  }

  void OnStart(const std::string& name) {
    if (name == stop_at_process_ && pids_[name].size() == stop_at_times_) stop_.Set();
  }

  void ExpectAllGone() {
    for (const auto& [name, pids] : pids_) {
      for (const pid_t pid : pids) EXPECT_TRUE(IsGone(pid)) << name;
    }
  }

  const TempFolder folder_;
  EventFd stop_;
  EventFd ready_;
  std::map<std::string, std::vector<pid_t>> pids_;
  std::vector<ProcessEnd> ends_;
  int readies_ = 0;
  std::string stop_at_process_;
  size_t stop_at_times_ = 0;
};

TEST_F(SupervisorTest, StopsEverythingWhenAsked) {
  StopAtStart("b", 1);
  EXPECT_TRUE(Supervise(Options({Waiter("a"), Waiter("b")})).ok());
  EXPECT_EQ(pids_["a"].size(), 1u);
  EXPECT_EQ(pids_["b"].size(), 1u);
  ExpectAllGone();
}

TEST_F(SupervisorTest, PassesOnWhatAProcessSaysOfItsEnd) {
  ready_.Set();
  ProcessSpec fails =
      Script("fails", "if mkdir $0.once 2>/dev/null; then echo 'no room' >$0.end; fi; exit 3");
  fails.termination_log = fails.argv[0] + ".end";
  StopAtStart("fails", 3);
  EXPECT_TRUE(Supervise(Options({fails})).ok());
  ASSERT_EQ(ends_.size(), 2u);
  EXPECT_EQ(ends_[0].reason, "no room");
  EXPECT_EQ(ends_[1].reason, "");  // one end's reason is not the next one's
}

TEST_F(SupervisorTest, GivesUpWithTheReasonOfTheLastEnd) {
  ProcessSpec fails = Script("fails", "echo 'no room' >$0.end; exit 3");
  fails.termination_log = fails.argv[0] + ".end";
  const absl::Status status = Supervise(Options({fails}));
  EXPECT_THAT(std::string(status.message()), HasSubstr("last with exit status 3: no room"));
}

TEST_F(SupervisorTest, GivesUpAtOnceWhereTheConfigurationIsAtFault) {
  ProcessSpec fails =
      Script("fails", "echo 'INVALID_ARGUMENT: tokens: line 1: no' >$0.end; exit 1");
  fails.termination_log = fails.argv[0] + ".end";
  EXPECT_EQ(Supervise(Options({fails})),
            absl::InvalidArgumentError("fails: INVALID_ARGUMENT: tokens: line 1: no"));
  EXPECT_EQ(pids_["fails"].size(), 1u);
}

TEST_F(SupervisorTest, StartsAgainWhatEndsAndSaysHowItEnded) {
  ready_.Set();
  StopAtStart("fails", 3);
  EXPECT_TRUE(Supervise(Options({Waiter("stays"), Script("fails", "exit 3")})).ok());
  EXPECT_EQ(pids_["stays"].size(), 1u);
  ASSERT_EQ(ends_.size(), 2u);
  for (size_t i = 0; i < ends_.size(); ++i) {
    EXPECT_EQ(ends_[i].name, "fails");
    EXPECT_EQ(ends_[i].pid, pids_["fails"][i]);
    EXPECT_EQ(ends_[i].how, "exit status 3");
  }
  ExpectAllGone();
}

TEST_F(SupervisorTest, NamesTheSignalThatEndedAProcess) {
  ready_.Set();
  StopAtStart("killed", 2);
  EXPECT_TRUE(Supervise(Options({Script("killed", "kill -KILL $$")})).ok());
  ASSERT_EQ(ends_.size(), 1u);
  EXPECT_EQ(ends_[0].how, "signal 9 (Killed)");
}

TEST_F(SupervisorTest, KillsAndStartsAgainWhatDoesNotAnswer) {
  // A listener that nobody serves is what a stopped process looks like.
  const std::string path = folder_.PathOf("socket");
  const int listener = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = {}};
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(listen(listener, 8), 0);
  HealthWatch watch({{"silent", "unix:" + path}}, absl::Milliseconds(50));
  SupervisorOptions options = Options({Waiter("silent"), Waiter("other")});
  std::vector<SilentProcess> silent;
  options.health = &watch;
  options.on_silent = [&](const SilentProcess& process) { silent.push_back(process); };
  ready_.Set();
  StopAtStart("silent", 3);
  EXPECT_TRUE(Supervise(options).ok());
  close(listener);
  ASSERT_EQ(silent.size(), 2u);
  for (size_t i = 0; i < silent.size(); ++i) {
    EXPECT_EQ(silent[i].name, "silent");
    EXPECT_EQ(silent[i].pid, pids_["silent"][i]);
    EXPECT_EQ(ends_[i].how, "signal 9 (Killed)");
  }
  EXPECT_EQ(pids_["other"].size(), 1u);
  ExpectAllGone();
}

TEST_F(SupervisorTest, PausesLongerEachTimeUpToALimit) {
  ready_.Set();
  StopAtStart("fails", 6);
  EXPECT_TRUE(Supervise(Options({Script("fails", "exit 1")})).ok());
  std::vector<int64_t> pauses;
  for (const ProcessEnd& end : ends_) {
    pauses.push_back(absl::ToInt64Milliseconds(end.restart_in));
  }
  EXPECT_THAT(pauses, ElementsAre(1, 2, 4, 4, 4));
}

TEST_F(SupervisorTest, StartsAgainAtOnceWhatLivedLong) {
  ready_.Set();
  StopAtStart("fails", 5);
  SupervisorOptions options = Options({Script("fails", "exit 1")});
  options.stable_after = absl::ZeroDuration();
  EXPECT_TRUE(Supervise(options).ok());
  ASSERT_EQ(ends_.size(), 4u);
  for (const ProcessEnd& end : ends_) EXPECT_EQ(end.restart_in, options.first_pause);
}

TEST_F(SupervisorTest, GivesUpWhatEndsAgainAndAgainBeforeReady) {
  const absl::Status status = Supervise(Options({Waiter("stays"), Script("fails", "exit 7")}));
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(
      std::string(status.message()),
      HasSubstr("fails ended 5 times before the pipeline was ready, last with exit status 7"));
  EXPECT_EQ(pids_["fails"].size(), 5u);
  ExpectAllGone();
}

TEST_F(SupervisorTest, NamesAProgramThatIsMissing) {
  const absl::Status status = Supervise(
      Options({Waiter("stays"), {.name = "missing", .argv = {folder_.PathOf("missing")}}}));
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr(folder_.PathOf("missing") + ": No such"));
  ExpectAllGone();
}

TEST_F(SupervisorTest, TellsOnceThatTheProcessesAreReady) {
  ready_.Set();
  StopAtStart("fails", 4);
  EXPECT_TRUE(Supervise(Options({Script("fails", "exit 1")})).ok());
  EXPECT_EQ(readies_, 1);
}

TEST_F(SupervisorTest, LetsAProcessFinishAfterSigterm) {
  const std::string mark = folder_.PathOf("mark");
  const ProcessSpec careful = Waiter("careful", "echo done >" + mark + "; exit 0");
  SupervisorOptions options = Options({careful});
  options.on_start = [&](const std::string&, pid_t) {
    WaitUntilUp(careful);
    stop_.Set();
  };
  EXPECT_TRUE(Supervise(options).ok());
  EXPECT_TRUE(std::ifstream(mark).good());
}

TEST_F(SupervisorTest, StopsOneFirstAndKeepsTheOthersRunningForIt) {
  // The first ends only when told, which happens once the other was started again.
  const ProcessSpec front = Waiter("front", "read -r line <$0.go; exit 0");
  const std::string go = front.argv[0] + ".go";
  ASSERT_EQ(mkfifo(go.c_str(), 0600), 0);
  SupervisorOptions options = Options({front, Script("stage", "exit 1")});
  options.stopped_first = "front";
  options.stopped_first_grace = absl::Seconds(60);
  options.on_start = [&](const std::string& name, pid_t pid) {
    pids_[name].push_back(pid);
    if (name == "front") {
      WaitUntilUp(front);
      stop_.Set();
    } else if (pids_["stage"].size() == 2) {
      std::ofstream(go) << "\n";
    }
  };
  ready_.Set();
  EXPECT_TRUE(Supervise(options).ok());
  EXPECT_EQ(pids_["front"].size(), 1u);
  EXPECT_GE(pids_["stage"].size(), 2u);
  ExpectAllGone();
}

TEST_F(SupervisorTest, KillsWhatIgnoresSigterm) {
  const ProcessSpec stubborn = Waiter("stubborn", "");
  SupervisorOptions options = Options({stubborn});
  options.grace = absl::Milliseconds(1);
  pid_t pid = 0;
  options.on_start = [&](const std::string&, pid_t started) {
    pid = started;
    WaitUntilUp(stubborn);
    stop_.Set();
  };
  EXPECT_TRUE(Supervise(options).ok());
  ASSERT_NE(pid, 0);
  EXPECT_TRUE(IsGone(pid));
}

TEST_F(SupervisorTest, GivesProcessesAnEmptyStdinStderrForStdoutAndNoOtherFiles) {
  const int open_here = open("/dev/null", O_RDONLY);  // without O_CLOEXEC
  ASSERT_GE(open_here, 3);
  const std::string seen = folder_.PathOf("seen");
  const std::string fds = "/proc/$$/fd";
  const ProcessSpec curious =
      Script("curious", "a=$(readlink " + fds + "/0); b=$(readlink " + fds + "/1); c=$(readlink " +
                            fds + "/2); [ -e " + fds + "/" + std::to_string(open_here) +
                            " ] && leak=leak; [ \"$b\" = \"$c\" ] && same=same; " +
                            "echo $a $same $leak >" + seen);
  StopAtStart("curious", 2);
  EXPECT_TRUE(Supervise(Options({curious})).ok());
  close(open_here);
  std::ifstream file(seen);
  std::string line;
  std::getline(file, line);
  EXPECT_EQ(line, "/dev/null same");
}

// Runs the supervisor in a process of its own, kills that with SIGKILL, and expects its children,
// which this process inherits, to be killed with it.
TEST_F(SupervisorTest, ProcessesDieWithTheirSupervisor) {
  ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  int pipe_fds[2];
  ASSERT_EQ(pipe(pipe_fds), 0);
  const std::vector<ProcessSpec> processes = {Waiter("a"), Waiter("b")};
  const pid_t supervisor = fork();
  ASSERT_GE(supervisor, 0);
  if (supervisor == 0) {
    SupervisorOptions options = Options(processes);
    options.on_start = [&](const std::string&, pid_t pid) {
      if (write(pipe_fds[1], &pid, sizeof(pid)) != sizeof(pid)) _exit(1);
    };
    (void)Supervise(options);
    _exit(1);
  }
  pid_t children[2] = {};
  for (pid_t& child : children) {
    ASSERT_EQ(read(pipe_fds[0], &child, sizeof(child)), static_cast<ssize_t>(sizeof(child)));
  }
  for (const ProcessSpec& process : processes) WaitUntilUp(process);
  ASSERT_EQ(kill(supervisor, SIGKILL), 0);
  ASSERT_EQ(waitpid(supervisor, nullptr, 0), supervisor);
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
  }
  close(pipe_fds[0]);
  close(pipe_fds[1]);
  prctl(PR_SET_CHILD_SUBREAPER, 0);
}

}  // namespace
}  // namespace sluice::testing
