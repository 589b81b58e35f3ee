// A queue between the threads that receive and the one that works. Thread-safe.
#pragma once

#include <deque>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace sluice {

template <class Item>
class WorkQueue {
 public:
  // Dropped once closed.
  void Add(Item item) {
    absl::MutexLock lock(&mutex_);
    if (!closed_) items_.push_back(std::move(item));
  }

  // Waits for the next item; nothing once closed.
  std::optional<Item> Next() {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(this, &WorkQueue::HasNextOrClosed));
    if (closed_) return std::nullopt;
    Item item = std::move(items_.front());
    items_.pop_front();
    return item;
  }

  // Wakes Next().
  void Close() {
    absl::MutexLock lock(&mutex_);
    closed_ = true;
  }

 private:
  bool HasNextOrClosed() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return closed_ || !items_.empty();
  }

  absl::Mutex mutex_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<Item> items_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sluice
