// Writes lines, and bars of progress, to stderr and never waits for its reader. A pipe, terminal or socket whose reader is
// slow receives the lines that fit its buffer; later lines are dropped and counted. Files receive
// every line. Thread-safe.
#pragma once

#include <sys/stat.h>

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"

namespace sluice {

class StderrWriter {
 public:
  // Of the process.
  static StderrWriter& Get();

  // `fd` in the place of stderr, for tests.
  explicit StderrWriter(int fd) : fd_(fd) {}

  // Writes `text`, whole lines, at once or not at all; of more than the 4096 bytes that pipes keep
  // together perhaps only the beginning. False where it was dropped. `lost` becomes the number of
  // texts that were dropped before this one, once they can be told of.
  bool Write(absl::string_view text, uint64_t* lost);

 private:
  enum class Way { kWrite, kSend, kReopened, kPoll };

  void Look() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int64_t Try(absl::string_view text) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const int fd_;
  absl::Mutex mutex_;
  bool looked_ ABSL_GUARDED_BY(mutex_) = false;
  dev_t device_ ABSL_GUARDED_BY(mutex_) = 0;  // of the file that it was, to notice another
  ino_t inode_ ABSL_GUARDED_BY(mutex_) = 0;
  Way way_ ABSL_GUARDED_BY(mutex_) = Way::kWrite;
  int reopened_ ABSL_GUARDED_BY(mutex_) = -1;
  bool within_line_ ABSL_GUARDED_BY(mutex_) = false;  // the last text was cut
  uint64_t lost_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace sluice
