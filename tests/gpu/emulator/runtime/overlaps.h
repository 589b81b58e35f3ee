// Which launches of a stream are over when another begins. With programmatic dependent launch a kernel
// may begin once all blocks of the one before have said so or ended, and that one may have said so
// before those before it are over: only what waits (griddepcontrol.wait) knows that they are.
#pragma once

#include <cstdint>

#include "tests/gpu/emulator/machine/global_memory.h"
#include "tests/gpu/emulator/machine/launch.h"

namespace sluice::cuda::emulator {

class Overlaps {
 public:
  explicit Overlaps(uint32_t stream = 0) : stream_(stream) {}

  LaunchOrder Begin(uint32_t number, bool may_overlap) {
    LaunchOrder order{.stream = stream_, .number = number, .over_at_start = number - 1};
    if (may_overlap && last_is_launch_) {
      // The last one has been waited for by nobody yet.
      const bool waited_first = dependence_.all_waited && dependence_.none_released_early;
      order.over_at_start = waited_first ? last_.over_after_wait : last_.over_at_start;
    }
    // That the last one is over says that those before are, where all of its blocks waited for them.
    order.over_after_wait =
        last_is_launch_ && !dependence_.all_waited ? order.over_at_start : number - 1;
    return order;
  }
  void End(const LaunchOrder& order, const GridDependence& dependence) {
    last_ = order;
    dependence_ = dependence;
    last_is_launch_ = true;
  }
  // What is no launch comes behind all that was enqueued before it, and before all behind it.
  void EndAll() { last_is_launch_ = false; }

 private:
  uint32_t stream_;
  bool last_is_launch_ = false;
  GridDependence dependence_;
  LaunchOrder last_;
};

}  // namespace sluice::cuda::emulator
