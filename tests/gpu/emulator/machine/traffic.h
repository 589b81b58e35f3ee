// What the accesses of a kernel's warps cost: the turns that shared memory takes for each, and the
// sectors of global memory that each touches, beside the fewest that would do for as many bytes. What
// ptxas makes of the accesses, caches and copies in bulk are left out.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <utility>

#include "tests/gpu/emulator/machine/program.h"

namespace sluice::cuda::emulator {

struct Thread;

enum class Space { kShared, kGlobal };

struct AccessCost {
  int64_t accesses = 0;  // of warps
  int64_t turns = 0;     // of shared memory; sectors of global memory
  int64_t least = 0;

  AccessCost& operator+=(const AccessCost& other) {
    accesses += other.accesses;
    turns += other.turns;
    least += other.least;
    return *this;
  }
};

class Traffic {
 public:
  // An access of one lane. Lanes come one after another: the n-th at a step of each is the warp's n-th.
  void Note(const Thread& thread, const Step& step, Space space, uint64_t address, uint32_t bytes);
  // The threads so far have ended.
  void EndCluster();
  void EndLaunch() { ++launches_; }

  struct Key {
    const Step* step = nullptr;
    Space space = Space::kShared;

    auto operator<=>(const Key&) const = default;
  };
  // By step, which is known by its address: its program must live where it is looked at.
  const std::map<Key, AccessCost>& costs() const { return costs_; }
  int64_t launches() const { return launches_; }

 private:
  static constexpr int kLanes = 32;
  struct WarpAccess {
    uint32_t bytes = 0;  // of a lane
    uint32_t lanes = 0;  // that have come
    std::array<uint64_t, kLanes> addresses{};
  };
  // The accesses of a warp at a step that some lanes are still to come to.
  struct Open {
    std::array<uint32_t, kLanes> counts{};
    uint32_t first = 0;  // number of the first in `accesses`
    std::deque<WarpAccess> accesses;
  };

  static AccessCost CostOf(const WarpAccess& access, Space space);

  std::map<std::pair<Key, const void*>, Open> open_;  // by warp
  std::map<Key, AccessCost> costs_;
  int64_t launches_ = 0;
};

}  // namespace sluice::cuda::emulator
