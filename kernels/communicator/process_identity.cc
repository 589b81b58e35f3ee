#include "kernels/communicator/process_identity.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace sluice {
namespace {

struct ProcessStat {
  char state = '?';
  std::uint64_t start_ticks = 0;
};

// proc(5): "pid (command) state ppid ...", the start time being field 22. The command may itself
// hold blanks and parentheses, so counting starts after the last ')'.
std::optional<ProcessStat> ReadStat(std::int64_t pid) {
  const int fd = open(absl::StrCat("/proc/", pid, "/stat").c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return std::nullopt;
  char buffer[1024];
  const ssize_t n = read(fd, buffer, sizeof(buffer));
  close(fd);
  const absl::string_view text(buffer, n > 0 ? static_cast<std::size_t>(n) : 0);
  const std::size_t command_end = text.rfind(')');
  if (command_end == absl::string_view::npos) return std::nullopt;
  const std::vector<absl::string_view> fields =
      absl::StrSplit(text.substr(command_end + 1), ' ', absl::SkipEmpty());
  constexpr std::size_t kState = 0;
  constexpr std::size_t kStartTicks = 22 - 3;
  ProcessStat stat;
  if (fields.size() <= kStartTicks || !absl::SimpleAtoi(fields[kStartTicks], &stat.start_ticks)) {
    return std::nullopt;
  }
  stat.state = fields[kState][0];
  return stat;
}

std::uint64_t PidNamespace() {
  struct stat status;
  return stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

}  // namespace

ProcessIdentity ThisProcess() {
  ProcessIdentity process;
  process.pid = getpid();
  process.pid_namespace = PidNamespace();
  if (const auto stat = ReadStat(process.pid)) process.start_ticks = stat->start_ticks;
  return process;
}

bool IsSameProcess(const ProcessIdentity& a, const ProcessIdentity& b) {
  return a.pid == b.pid && a.start_ticks == b.start_ticks && a.pid_namespace == b.pid_namespace;
}

HostBootId ThisHost() {
  HostBootId id{};
  const int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return id;
  const ssize_t length = read(fd, id.data(), id.size() - 1);
  close(fd);
  // Its line ends here.
  if (length > 0 && id[length - 1] == '\n') id[length - 1] = '\0';
  return id;
}

bool HasDied(const ProcessIdentity& process) {
  if (process.pid_namespace != PidNamespace()) return false;
  if (kill(static_cast<pid_t>(process.pid), 0) != 0 && errno == ESRCH) return true;
  const auto stat = ReadStat(process.pid);
  if (!stat) return false;
  if (stat->state == 'Z' || stat->state == 'X') return true;
  return process.start_ticks != 0 && stat->start_ticks != process.start_ticks;
}

}  // namespace sluice
