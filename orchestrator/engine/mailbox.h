// Messages for a thread from others: closures, run in order. Thread-safe.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace sluice {

class Mailbox {
 public:
  using Message = std::function<void()>;

  void Post(Message message) {
    absl::MutexLock lock(&mutex_);
    messages_.push_back(std::move(message));
  }

  // Takes everything posted, waiting for the first message until `deadline`.
  std::vector<Message> TakeAll(absl::Time deadline) {
    absl::MutexLock lock(&mutex_);
    mutex_.AwaitWithDeadline(absl::Condition(this, &Mailbox::HasMessages), deadline);
    return std::exchange(messages_, {});
  }

 private:
  bool HasMessages() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !messages_.empty(); }

  absl::Mutex mutex_;
  std::vector<Message> messages_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sluice
