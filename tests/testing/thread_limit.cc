#include "tests/testing/thread_limit.h"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <limits>

namespace sluice::testing {
namespace {

constexpr int kNoLimit = std::numeric_limits<int>::max();

std::atomic<int> threads_left{kNoLimit};

// Whether another may be started.
[[maybe_unused]] bool TakeThread() {
  return threads_left.load() == kNoLimit || threads_left.fetch_sub(1) > 0;
}

}  // namespace

ThreadLimit::ThreadLimit(int threads) { threads_left = threads; }

ThreadLimit::~ThreadLimit() { threads_left = kNoLimit; }

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)

bool CanLimitThreads() { return false; }

}  // namespace sluice::testing

#else

bool CanLimitThreads() { return true; }

}  // namespace sluice::testing

// Found before the C library's.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*start)(void*), void* argument) noexcept {
  using Create = decltype(&pthread_create);
  static const auto create = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  if (!sluice::testing::TakeThread()) return EAGAIN;
  return create(thread, attributes, start, argument);
}

#endif
