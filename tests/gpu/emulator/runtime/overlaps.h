// Which launches of a stream are over when another begins. With programmatic dependent launch a kernel
// may begin once all blocks of the one before have said so or ended, and that one may have said so
// before those before it are over: only what waits (griddepcontrol.wait) knows that they are.
#pragma once

#include <cstdint>

#include "tests/gpu/emulator/machine/global_memory.h"

namespace sluice::cuda::emulator {

class Overlaps {
 public:
  explicit Overlaps(uint32_t stream = 0) : stream_(stream) {}

  LaunchOrder Begin(uint32_t number, bool may_overlap) {
    LaunchOrder order{.stream = stream_, .number = number, .over_at_start = number - 1};
    if (may_overlap && last_is_launch_) {
      // The last one has been waited for by nobody yet.
      order.over_at_start = last_waited_ ? last_.over_after_wait : last_.over_at_start;
    }
    // That the last one is over says that those before are, where all of its blocks waited for them.
    order.over_after_wait = last_is_launch_ && !last_waited_ ? order.over_at_start : number - 1;
    return order;
  }
  // `waited`: all of its blocks have waited for those before.
  void End(const LaunchOrder& order, bool waited) {
    last_ = order;
    last_waited_ = waited;
    last_is_launch_ = true;
  }
  // What is no launch comes behind all that was enqueued before it, and before all behind it.
  void EndAll() { last_is_launch_ = false; }

 private:
  uint32_t stream_;
  bool last_is_launch_ = false;
  bool last_waited_ = true;
  LaunchOrder last_;
};

}  // namespace sluice::cuda::emulator
