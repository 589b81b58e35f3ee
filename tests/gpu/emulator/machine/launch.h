// Carries a kernel out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "tests/gpu/emulator/machine/global_memory.h"
#include "tests/gpu/emulator/machine/program.h"
#include "tests/gpu/emulator/machine/traffic.h"

namespace sluice::cuda::emulator {

struct LaunchRequest {
  const Program* program = nullptr;
  int64_t blocks = 1;
  int threads = kMostThreads;  // of a block
  int cluster = 1;             // blocks
  size_t shared_bytes = 0;
  bool may_overlap = false;  // begins while the kernel before it ends
  std::vector<std::byte> parameters;
  Traffic* traffic = nullptr;  // counts what its accesses cost, if anybody does

  static constexpr int kMostThreads = 1024;
};

// What the blocks of a launch say about the launches before and behind it.
struct GridDependence {
  bool all_waited = true;  // each block waited for those before (griddepcontrol.wait)
  // No thread let the next one begin (griddepcontrol.launch_dependents) before it had waited.
  bool none_released_early = true;
};

// Clusters one after another, the threads of one in turns of their own length. INTERNAL says which
// thread did at which instruction what no GPU defines, or where all threads wait forever.
absl::Status CarryOut(const LaunchRequest& request, const LaunchOrder& order, GlobalMemory& memory,
                      GridDependence& dependence);

}  // namespace sluice::cuda::emulator
