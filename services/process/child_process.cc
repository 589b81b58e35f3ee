#include "services/process/child_process.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

constexpr int kCannotExecute = 127;  // as shells have it

// In the child: only async-signal-safe calls, since another thread may have held any lock when the
// process was copied.
[[noreturn]] void BecomeProgram(pid_t parent, char* const* argv, ChildStreams streams) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The parent may have ended before it could be watched.
  if (getppid() != parent) _exit(kCannotExecute);
  setpgid(0, 0);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const int in = streams.in >= 0 ? streams.in : open("/dev/null", O_RDONLY);
  if (in >= 0) dup2(in, STDIN_FILENO);
  dup2(streams.out >= 0 ? streams.out : STDERR_FILENO, STDOUT_FILENO);
  close_range(3, ~0U, 0);
  execv(argv[0], argv);
  _exit(kCannotExecute);
}

std::string Describe(int status) {
  if (WIFSIGNALED(status)) {
    return absl::StrCat("signal ", WTERMSIG(status), " (", strsignal(WTERMSIG(status)), ")");
  }
  return absl::StrCat("exit status ", WEXITSTATUS(status));
}

int WaitFor(pid_t pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

}  // namespace

std::string OwnProgram(const char* argv0) {
  std::error_code error;
  const std::filesystem::path file = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string called =
      (file.parent_path() / std::filesystem::path(argv0).filename()).string();
  return access(called.c_str(), X_OK) == 0 ? called : file.string();
}

absl::StatusOr<ChildProcess> ChildProcess::Start(const std::vector<std::string>& argv,
                                                 ChildStreams streams) {
  if (access(argv[0].c_str(), X_OK) != 0) {
    return absl::NotFoundError(
        absl::StrCat("cannot execute ", argv[0], ": ", std::strerror(errno)));
  }
  std::vector<char*> arguments;
  arguments.reserve(argv.size() + 1);
  for (const std::string& argument : argv) {
    arguments.push_back(const_cast<char*>(argument.c_str()));  // execv's type predates const
  }
  arguments.push_back(nullptr);

  const pid_t parent = getpid();
  // Unlike fork it runs no handlers of libraries, such as gRPC's, which need locks.
  const pid_t pid = _Fork();
  if (pid == 0) BecomeProgram(parent, arguments.data(), streams);
  if (pid < 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot start ", argv[0], ": ", std::strerror(errno)));
  }
  // The process is not reaped before Reap, so the number cannot have become another's.
  // Not glibc's pidfd_open: 2.36 declares it with the linkage of C++.
  const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (pidfd < 0) {
    const std::string reason = std::strerror(errno);
    kill(pid, SIGKILL);
    WaitFor(pid);
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot watch ", argv[0], " (pidfd_open): ", reason));
  }
  return ChildProcess(pid, pidfd);
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), pidfd_(std::exchange(other.pidfd_, -1)) {}

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  if (this != &other) {
    Release();
    pid_ = std::exchange(other.pid_, -1);
    pidfd_ = std::exchange(other.pidfd_, -1);
  }
  return *this;
}

ChildProcess::~ChildProcess() { Release(); }

void ChildProcess::Release() {
  if (pid_ < 0) return;
  Signal(SIGKILL);
  Reap();
}

void ChildProcess::Signal(int signal) const { kill(pid_, signal); }

std::string ChildProcess::Reap() {
  const int status = WaitFor(pid_);
  close(pidfd_);
  pid_ = -1;
  pidfd_ = -1;
  return Describe(status);
}

}  // namespace sluice
