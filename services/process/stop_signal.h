// Interrupts the waits of a periodic background thread. Time is the steady clock's. Thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "absl/time/time.h"

namespace sluice {

class StopSignal {
 public:
  // For good.
  void Set() {
    const std::lock_guard lock(mutex_);
    is_set_ = true;
    changed_.notify_all();
  }

  bool is_set() const {
    const std::lock_guard lock(mutex_);
    return is_set_;
  }

  // Until it is set, for so long at most. Whether it is.
  bool WaitFor(absl::Duration time) {
    const auto until = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(time);
    std::unique_lock lock(mutex_);
    return changed_.wait_until(lock, until, [this] { return is_set_; });
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool is_set_ = false;
};

}  // namespace sluice
