// A system that gives only so many threads more, for programs that link this.
#pragma once

namespace sluice::testing {

// False under sanitizers, which start threads by means of their own.
bool CanLimitThreads();

// While this lives, `threads` more can be started, whoever starts them; then std::thread throws
// what it does where the system has no more. One at a time.
class ThreadLimit {
 public:
  explicit ThreadLimit(int threads);
  ThreadLimit(const ThreadLimit&) = delete;
  ThreadLimit& operator=(const ThreadLimit&) = delete;
  ~ThreadLimit();
};

}  // namespace sluice::testing
