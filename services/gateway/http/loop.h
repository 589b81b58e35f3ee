// One thread that runs callbacks: everything of a connection, and of the calls made for it, happens
// on the loop that the connection belongs to, so none of it needs a lock.
#pragma once

#include <functional>

#include "absl/time/time.h"

namespace sluice::http {

class Loop {
 public:
  virtual ~Loop() = default;
  // Runs `task` on the loop's thread, after what was posted before it. Thread-safe.
  virtual void Post(std::function<void()> task) = 0;
  // The same after `delay`. Thread-safe. Tasks that are not due when the loop ends are dropped.
  virtual void After(absl::Duration delay, std::function<void()> task) = 0;
};

}  // namespace sluice::http
