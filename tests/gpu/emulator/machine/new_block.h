// A block of threads as it begins.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "tests/gpu/emulator/machine/launch.h"
#include "tests/gpu/emulator/machine/thread.h"

namespace sluice::cuda::emulator {

// Barriers of a cluster that copies complete on, at most.
constexpr size_t kEngines = 64;

using Stack = std::vector<uint64_t>;

// What a thread needs of those before it: memory is not to be had anew for each.
class Stacks {
 public:
  Stack Take() {
    if (free_.empty()) return {};
    Stack stack = std::move(free_.back());
    free_.pop_back();
    return stack;
  }
  void GiveBack(Stack stack) { free_.push_back(std::move(stack)); }

 private:
  std::vector<Stack> free_;
};

// The one at `index` in the grid.
std::unique_ptr<Block> NewBlock(const LaunchRequest& request, Cluster& cluster, int64_t index,
                                Stacks& stacks);

}  // namespace sluice::cuda::emulator
