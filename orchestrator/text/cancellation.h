// A caller's word that it is no longer interested, for work that is done elsewhere meanwhile.
// Thread-safe.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace sluice {

class Cancellation {
 public:
  void Cancel() {
    std::vector<std::function<void()>> actions;
    {
      absl::MutexLock lock(&mutex_);
      cancelled_ = true;
      actions = std::exchange(actions_, {});
    }
    for (const std::function<void()>& action : actions) action();
  }

  bool cancelled() const {
    absl::MutexLock lock(&mutex_);
    return cancelled_;
  }

  // Calls `action` once it is cancelled, at once where it has been.
  void OnCancel(std::function<void()> action) {
    {
      absl::MutexLock lock(&mutex_);
      if (!cancelled_) {
        actions_.push_back(std::move(action));
        return;
      }
    }
    action();
  }

 private:
  mutable absl::Mutex mutex_;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::function<void()>> actions_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sluice
