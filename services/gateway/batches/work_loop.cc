#include "services/gateway/batches/work_loop.h"

namespace sluice::gateway {

void WorkLoop::After(absl::Duration delay, std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    // What is due at once is due in order, whatever the clock's resolution.
    const SteadyTime due = delay > absl::ZeroDuration() ? SteadyTime::Now() + delay : SteadyTime();
    tasks_.emplace(std::pair(due, num_tasks_++), std::move(task));
  }
  changed_.notify_one();
}

void WorkLoop::Run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (tasks_.empty()) {
      changed_.wait(lock);
      continue;
    }
    const SteadyTime due = tasks_.begin()->first.first;
    if (due > SteadyTime::Now()) {
      changed_.wait_until(lock, due.ToChrono());
      continue;
    }
    auto node = tasks_.extract(tasks_.begin());
    lock.unlock();
    node.mapped()();
    node = {};
    lock.lock();
  }
}

bool WorkLoop::stopped() {
  const std::lock_guard lock(mutex_);
  return stopping_;
}

void WorkLoop::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
  std::map<std::pair<SteadyTime, uint64_t>, std::function<void()>> dropped;
  {
    const std::lock_guard lock(mutex_);
    dropped.swap(tasks_);
  }
}

}  // namespace sluice::gateway
