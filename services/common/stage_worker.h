// The thread on which a stage computes. A stage lives through sessions, one for each epoch it is
// wired into; a newer session replaces the current one. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "services/common/progress_watch.h"

namespace sluice {

// One incarnation of a stage's wiring.
class StageSession {
 public:
  virtual ~StageSession() = default;

  // Computes steps until closed or failed, and tells its streams. Runs on the worker's thread.
  virtual void Run() = 0;

  // Makes Run() return soon, whatever it waits for. Any thread, any number of times, also before
  // Run().
  virtual void Close(const absl::Status& reason) = 0;

 protected:
  // Watches what Run() computes, not what it waits for; may be null.
  ProgressWatch* progress() const { return progress_; }

 private:
  friend class StageWorker;
  ProgressWatch* progress_ = nullptr;
};

class StageWorker {
 public:
  // `progress` is borrowed; null: nobody watches.
  explicit StageWorker(ProgressWatch* progress = nullptr);
  // Closes the current session and waits for it.
  ~StageWorker();

  // Closes the current session with ABORTED and runs `session` next. ABORTED, with nothing changed,
  // unless `epoch` is larger than that of every session before.
  absl::Status Switch(uint64_t epoch, std::shared_ptr<StageSession> session);

  // The newest epoch, 0 before the first.
  uint64_t epoch() const;

 private:
  void Loop();

  ProgressWatch* const progress_;
  mutable absl::Mutex mutex_;
  uint64_t epoch_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<StageSession> next_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<StageSession> current_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace sluice
