// Makes Abseil's locks, and at the end gRPC's call arenas, visible to ThreadSanitizer. Debian's
// libabsl_synchronization is built without it, so that memory guarded by an absl::Mutex, ours or
// gRPC's, would look unguarded. These definitions stand before the library's (an executable's
// symbols win), call them, and tell the sanitizer what happens. Linked into executables of the
// preset `tsan` alone.
#include <dlfcn.h>
#include <sanitizer/tsan_interface.h>

#include <cstddef>
#include <cstdint>

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "kernels/check.h"

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

template <class Function>
Function* LibraryFunction(const char* name) {
  void* const address = dlsym(RTLD_NEXT, name);
  SLUICE_CHECK(address != nullptr);
  return reinterpret_cast<Function*>(address);
}

}  // namespace

// NOLINTBEGIN(bugprone-reserved-identifier): mangled names
#define SLUICE_LIBRARY(type, name) static auto* const library = LibraryFunction<type>(name)

namespace absl {
ABSL_NAMESPACE_BEGIN

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

ABSL_NAMESPACE_END
}  // namespace absl
// NOLINTEND(bugprone-reserved-identifier)

// gRPC builds the objects of a call in memory of the call's arena, which goes from one call to the
// next through atomics inside libgrpc: for the sanitizer it is new each time.
struct grpc_call;
extern "C" void AnnotateNewMemory(const char* file, int line, const volatile void* memory,
                                  uintptr_t size);
extern "C" void* grpc_call_arena_alloc(grpc_call* call, size_t size) {
  SLUICE_LIBRARY(void*(grpc_call*, size_t), "grpc_call_arena_alloc");
  void* const memory = library(call, size);
  AnnotateNewMemory(__FILE__, __LINE__, memory, size);
  return memory;
}
