#include "services/common/termination_log.h"

#include <fcntl.h>
#include <unistd.h>

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

}  // namespace

void SetTerminationLog(std::string path) {
  absl::MutexLock lock(&mutex);
  if (log_path == nullptr) log_path = new std::string;
  *log_path = std::move(path);
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
