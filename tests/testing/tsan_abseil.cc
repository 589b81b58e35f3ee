// Makes Abseil's locks, notifications and shared statuses visible to ThreadSanitizer. Debian's
// Abseil is built without it, so that memory guarded by an absl::Mutex, ours or gRPC's, would look
// unguarded. Linked into executables of the preset `tsan` alone.
#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "tests/testing/tsan_library_function.h"

namespace {

// The mutex that this thread awaits something of, or unlocks. The library evaluates conditions in
// both, those of other threads too, while it holds that mutex.
thread_local void* evaluating = nullptr;

class Evaluating {
 public:
  explicit Evaluating(void* mutex) : previous_(evaluating) { evaluating = mutex; }
  ~Evaluating() { evaluating = previous_; }

 private:
  void* const previous_;
};

}  // namespace

namespace absl {
ABSL_NAMESPACE_BEGIN

// The private flag of a notification, which an explicit instantiation may name: HasBeenNotified,
// inline in our objects, reads it.
void* Flag(const Notification& notification);
template <auto flag>
struct NotificationFlag {
  friend void* Flag(const Notification& notification) {
    return const_cast<std::atomic<bool>*>(&(notification.*flag));
  }
};
template struct NotificationFlag<&Notification::notified_yet_>;

void Mutex::Lock() {
  SLUICE_LIBRARY(void(Mutex*), "_ZN4absl7debian35Mutex4LockEv");
  library(this);
  __tsan_acquire(this);
}

void Mutex::Unlock() {
  SLUICE_LIBRARY(void(Mutex*), "_ZN4absl7debian35Mutex6UnlockEv");
  const Evaluating scope(this);
  __tsan_release(this);
  library(this);
}

bool Mutex::TryLock() {
  SLUICE_LIBRARY(bool(Mutex*), "_ZN4absl7debian35Mutex7TryLockEv");
  const bool locked = library(this);
  if (locked) __tsan_acquire(this);
  return locked;
}

void Mutex::ReaderLock() {
  SLUICE_LIBRARY(void(Mutex*), "_ZN4absl7debian35Mutex10ReaderLockEv");
  library(this);
  __tsan_acquire(this);
}

void Mutex::ReaderUnlock() {
  SLUICE_LIBRARY(void(Mutex*), "_ZN4absl7debian35Mutex12ReaderUnlockEv");
  __tsan_release(this);
  library(this);
}

void Mutex::Await(const Condition& condition) {
  SLUICE_LIBRARY(void(Mutex*, const Condition&), "_ZN4absl7debian35Mutex5AwaitERKNS0_9ConditionE");
  const Evaluating scope(this);
  __tsan_release(this);
  library(this, condition);
  __tsan_acquire(const_cast<Condition*>(&condition));
  __tsan_acquire(this);
}

bool Mutex::AwaitWithTimeout(const Condition& condition, Duration timeout) {
  SLUICE_LIBRARY(bool(Mutex*, const Condition&, Duration),
                 "_ZN4absl7debian35Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE");
  const Evaluating scope(this);
  __tsan_release(this);
  const bool met = library(this, condition, timeout);
  __tsan_acquire(const_cast<Condition*>(&condition));
  __tsan_acquire(this);
  return met;
}

bool Mutex::AwaitWithDeadline(const Condition& condition, Time deadline) {
  SLUICE_LIBRARY(bool(Mutex*, const Condition&, Time),
                 "_ZN4absl7debian35Mutex17AwaitWithDeadlineERKNS0_9ConditionENS0_4TimeE");
  const Evaluating scope(this);
  __tsan_release(this);
  const bool met = library(this, condition, deadline);
  __tsan_acquire(const_cast<Condition*>(&condition));
  __tsan_acquire(this);
  return met;
}

void CondVar::Wait(Mutex* mutex) {
  SLUICE_LIBRARY(void(CondVar*, Mutex*), "_ZN4absl7debian37CondVar4WaitEPNS0_5MutexE");
  __tsan_release(mutex);
  library(this, mutex);
  __tsan_acquire(mutex);
}

bool CondVar::WaitWithTimeout(Mutex* mutex, Duration timeout) {
  SLUICE_LIBRARY(bool(CondVar*, Mutex*, Duration),
                 "_ZN4absl7debian37CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE");
  __tsan_release(mutex);
  const bool timed_out = library(this, mutex, timeout);
  __tsan_acquire(mutex);
  return timed_out;
}

bool CondVar::WaitWithDeadline(Mutex* mutex, Time deadline) {
  SLUICE_LIBRARY(bool(CondVar*, Mutex*, Time),
                 "_ZN4absl7debian37CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE");
  __tsan_release(mutex);
  const bool timed_out = library(this, mutex, deadline);
  __tsan_acquire(mutex);
  return timed_out;
}

bool Condition::Eval() const {
  SLUICE_LIBRARY(bool(const Condition*), "_ZNK4absl7debian39Condition4EvalEv");
  if (evaluating != nullptr) __tsan_acquire(evaluating);
  const bool met = library(this);
  if (evaluating != nullptr) __tsan_release(evaluating);
  // The condition lives on the stack of the thread that waits, which goes on once it is met.
  __tsan_release(const_cast<Condition*>(this));
  return met;
}

void Notification::Notify() {
  SLUICE_LIBRARY(void(Notification*), "_ZN4absl7debian312Notification6NotifyEv");
  __tsan_release(Flag(*this));
  library(this);
}

void Notification::WaitForNotification() const {
  SLUICE_LIBRARY(void(const Notification*),
                 "_ZNK4absl7debian312Notification19WaitForNotificationEv");
  library(this);
  __tsan_acquire(Flag(*this));
}

bool Notification::WaitForNotificationWithTimeout(Duration timeout) const {
  SLUICE_LIBRARY(bool(const Notification*, Duration),
                 "_ZNK4absl7debian312Notification30WaitForNotificationWithTimeoutENS0_8DurationE");
  const bool notified = library(this, timeout);
  if (notified) __tsan_acquire(Flag(*this));
  return notified;
}

bool Notification::WaitForNotificationWithDeadline(Time deadline) const {
  SLUICE_LIBRARY(bool(const Notification*, Time),
                 "_ZNK4absl7debian312Notification31WaitForNotificationWithDeadlineENS0_4TimeE");
  const bool notified = library(this, deadline);
  if (notified) __tsan_acquire(Flag(*this));
  return notified;
}

// Drops a reference; the last holder deletes what the others have read.
void Status::UnrefNonInlined(uintptr_t rep) {
  SLUICE_LIBRARY(void(uintptr_t), "_ZN4absl7debian36Status15UnrefNonInlinedEm");
  auto* const address = reinterpret_cast<void*>(rep);
  __tsan_release(address);
  __tsan_acquire(address);
  library(rep);
}

ABSL_NAMESPACE_END
}  // namespace absl
