// The thread on which a stage computes. A stage lives through sessions, one for each epoch it is
// wired into; a newer session replaces the current one. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "services/stage/stage_tenure.h"
#include "services/watch/progress_watch.h"
#include "sluice/v1/stage.pb.h"

namespace sluice {

// One incarnation of a stage's wiring.
class StageSession {
 public:
  virtual ~StageSession() = default;

  // Computes steps until closed or failed, and tells its streams. Runs on the worker's thread.
  virtual void Run() = 0;

  // A request with a plan has come by the orchestrator's stream. Any thread, also before Run().
  virtual void AddPlan(v1::StageRunRequest request) = 0;

  // Makes Run() return soon, whatever it waits for. Any thread, any number of times, also before
  // Run().
  virtual void Close(const absl::Status& reason) = 0;

  // The orchestrator's stream is over.
  void OrchestratorLeft() {
    if (on_left_ != nullptr) on_left_();
  }

 protected:
  // Watches what Run() computes, not what it waits for; may be null.
  ProgressWatch* progress() const { return progress_; }

 private:
  friend class StageWorker;
  ProgressWatch* progress_ = nullptr;
  std::function<void()> on_left_;  // set before the session is shared
};

class StageWorker {
 public:
  // `progress` is borrowed; null: not watched.
  explicit StageWorker(ProgressWatch* progress = nullptr);
  // Closes the current session and waits for it.
  ~StageWorker();

  // Closes the current session with ABORTED and runs `session` next. With nothing changed, ABORTED
  // unless `epoch` is newer than that of the session before (IsNewerEpoch), INVALID_ARGUMENT where
  // it is not 1 to kMaxEpoch, and ALREADY_EXISTS where the stage belongs to another orchestrator
  // than the one of this name (StageTenure, which also says what `nonce` is).
  absl::Status Switch(const std::string& orchestrator, const std::string& nonce, uint64_t epoch,
                      std::shared_ptr<StageSession> session);

  // The current session has computed a step.
  void NoteStep();

  // The newest epoch; 0 before the first, and after kMaxEpoch, when any is accepted next.
  uint64_t epoch() const;

  // The number of the tenure: another one in every process and for every orchestrator (StageTenure).
  uint64_t tenure() const;

 private:
  void Loop();

  ProgressWatch* const progress_;
  mutable absl::Mutex mutex_;
  uint64_t epoch_ ABSL_GUARDED_BY(mutex_) = 0;
  StageTenure tenure_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<StageSession> next_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<StageSession> current_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace sluice
