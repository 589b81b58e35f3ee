// A loop of the gateway whose tasks run on the test's thread; what is to come later comes at once.
#pragma once

#include <deque>
#include <functional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "services/gateway/http/loop.h"

namespace sluice::testing {

class TestLoop final : public http::Loop {
 public:
  void Post(std::function<void()> task) override {
    absl::MutexLock lock(&mutex_);
    tasks_.push_back(std::move(task));
  }
  void After(absl::Duration, std::function<void()> task) override { Post(std::move(task)); }

  void RunUntil(const std::function<bool()>& done) {
    while (!done()) RunOne();
  }

  // Waits for a task where there is none.
  void RunOne() {
    std::function<void()> task;
    {
      absl::MutexLock lock(&mutex_);
      const auto some = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !tasks_.empty(); };
      mutex_.Await(absl::Condition(&some));
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }

 private:
  absl::Mutex mutex_;
  std::deque<std::function<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sluice::testing
