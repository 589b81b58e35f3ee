// Watches the progress of a process's own work. Work that hangs sets the health status to
// NOT_SERVING, then ends the process (HangDetector decides when). The supervisor starts another
// process, and recovery continues with that one. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "services/process/stop_signal.h"
#include "services/watch/hang_detector.h"

namespace sluice {

class ProgressWatch {
 public:
  struct Options {
    std::string program;  // for the log, such as "shard"
    absl::Duration hang_timeout = absl::Seconds(2);
    // Called from the watching thread, once, with what does not come back.
    std::function<void(const std::string& what)> on_stuck;
  };

  explicit ProgressWatch(Options options);
  ProgressWatch(const ProgressWatch&) = delete;
  ProgressWatch& operator=(const ProgressWatch&) = delete;
  ~ProgressWatch();

  // From now on `tell` hears, from the watching thread, when work begins or ceases to hang; null:
  // nobody does, and none is being told once this returns.
  void OnChanged(std::function<void(bool hangs)> tell);

  // A piece of work, from construction to destruction. `what` outlives the watch; for both see
  // HangDetector::Begin.
  class Work {
   public:
    // Null: not watched.
    Work(ProgressWatch* watch, const char* what, size_t size = 1);
    Work(const Work&) = delete;
    Work& operator=(const Work&) = delete;
    ~Work();

   private:
    ProgressWatch* const watch_;
    uint64_t id_ = 0;
  };

 private:
  void Loop();

  const Options options_;
  absl::Mutex mutex_;
  HangDetector detector_ ABSL_GUARDED_BY(mutex_);
  StopSignal stop_;
  absl::Mutex tell_mutex_;
  bool hangs_ ABSL_GUARDED_BY(tell_mutex_) = false;
  std::function<void(bool hangs)> tell_ ABSL_GUARDED_BY(tell_mutex_);
  std::thread thread_;  // last: it uses what is above
};

// The watch of a program: what does not come back ends it, with the stacks of all threads in the
// log.
std::unique_ptr<ProgressWatch> WatchProgress(const std::string& program,
                                             absl::Duration hang_timeout);

}  // namespace sluice
