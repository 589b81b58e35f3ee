#include "services/gateway/demo/process_kill.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace sluice::gateway {
namespace {

namespace fs = std::filesystem;

std::string ReadFile(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The fourth field of /proc/PID/stat, after the name, which may hold anything.
int ParentOf(const fs::path& process) {
  const std::string stat = ReadFile(process / "stat");
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return -1;
  const std::vector<std::string> fields =
      absl::StrSplit(stat.substr(name_end + 1), ' ', absl::SkipEmpty());
  int parent = -1;
  return fields.size() > 1 && absl::SimpleAtoi(fields[1], &parent) ? parent : -1;
}

// Those whose loss streams survive; the orchestrator and gateways are not among them.
constexpr absl::string_view kPrograms[] = {"sluice-tokenizer", "sluice-embedding", "sluice-shard",
                                           "sluice-sampler"};

bool IsStageAt(const fs::path& process, const std::string& address) {
  const std::string line = ReadFile(process / "cmdline");
  const std::vector<std::string> arguments = absl::StrSplit(line, '\0');
  const std::string program = fs::path(arguments.front()).filename().string();
  if (std::find(std::begin(kPrograms), std::end(kPrograms), program) == std::end(kPrograms)) {
    return false;
  }
  for (size_t i = 0; i + 1 < arguments.size(); ++i) {
    if (arguments[i] == "--listen" && arguments[i + 1] == address) return true;
  }
  return false;
}

}  // namespace

absl::Status KillSibling(const std::string& address) {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc", ignored)) {
    pid_t pid = 0;
    if (!absl::SimpleAtoi(entry.path().filename().string(), &pid) || pid == getpid()) continue;
    if (ParentOf(entry.path()) != getppid() || !IsStageAt(entry.path(), address)) continue;
    if (kill(pid, SIGKILL) == 0) return absl::OkStatus();
    return absl::InternalError(absl::StrCat("cannot kill process ", pid, ": ", strerror(errno)));
  }
  return absl::NotFoundError(
      absl::StrCat("no stage or tokenizer of this pipeline listens at ", address));
}

}  // namespace sluice::gateway
