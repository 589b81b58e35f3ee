// Turns a signal (Ctrl-C) into the orderly end of whatever is in progress. Thread-safe.
#pragma once

#include <functional>
#include <list>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace sluice {

class Interrupt {
 public:
  // Something in progress that can be ended: `end` is called at most once, from the thread that
  // requests the interrupt, or at once where one was requested before; never after the destructor.
  // It must not block and must not touch the Interrupt.
  class Handler {
   public:
    Handler(Interrupt& interrupt, std::function<void()> end);
    Handler(const Handler&) = delete;
    Handler& operator=(const Handler&) = delete;
    ~Handler();

   private:
    Interrupt& interrupt_;
    std::list<std::function<void()>>::iterator position_;
  };

  // Ends what is in progress; `exit_code` is what the program then exits with. False where nothing
  // here could be ended: nothing is in progress, or an interrupt was requested already.
  bool Request(int exit_code);

  bool requested() const { return exit_code() != 0; }
  // 0 until requested.
  int exit_code() const;

  // Forgets the request, so that the program goes on.
  void Clear();

 private:
  mutable absl::Mutex mutex_;
  int exit_code_ ABSL_GUARDED_BY(mutex_) = 0;
  std::list<std::function<void()>> handlers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sluice
