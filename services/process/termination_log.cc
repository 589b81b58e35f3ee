#include "services/process/termination_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

#include "absl/base/const_init.h"
#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"

namespace sluice {
namespace {

constexpr size_t kMostBytes = 4096;

ABSL_CONST_INIT absl::Mutex mutex(absl::kConstInit);
std::string* log_path ABSL_GUARDED_BY(mutex) = nullptr;  // lives as long as the process

// A file that may be written to, or a folder in which it may be made.
absl::Status CheckWritable(const std::string& path) {
  struct stat found {};
  int error = 0;
  if (stat(path.c_str(), &found) == 0) {
    if (S_ISDIR(found.st_mode)) {
      error = EISDIR;
    } else if (access(path.c_str(), W_OK) != 0) {
      error = errno;
    }
  } else {
    const std::string folder = std::filesystem::path(path).parent_path().string();
    if (access(folder.empty() ? "." : folder.c_str(), W_OK | X_OK) != 0) error = errno;
  }
  if (error == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(error, absl::StrCat("cannot write to ", path));
}

}  // namespace

absl::Status SetTerminationLog(std::string path) {
  const absl::Status writable = path.empty() ? absl::OkStatus() : CheckWritable(path);
  absl::MutexLock lock(&mutex);
  if (log_path == nullptr) log_path = new std::string;
  *log_path = writable.ok() ? std::move(path) : "";
  return writable;
}

void WriteTerminationLog(absl::string_view reason) {
  absl::MutexLock lock(&mutex);
  if (log_path == nullptr || log_path->empty()) return;
  const int file = open(log_path->c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0) return;
  const std::string line = absl::StrCat(reason.substr(0, kMostBytes - 1), "\n");
  if (write(file, line.data(), line.size()) < 0) {
    // Nobody is left to be told.
  }
  close(file);
}

}  // namespace sluice
