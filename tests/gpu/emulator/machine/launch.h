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

// Clusters one after another, the threads of one in turns of their own length. INTERNAL says which
// thread did at which instruction what no GPU defines, or where all threads wait forever.
// `all_waited`: whether each block waited for the launches before (griddepcontrol.wait).
absl::Status CarryOut(const LaunchRequest& request, const LaunchOrder& order, GlobalMemory& memory,
                      bool& all_waited);

}  // namespace sluice::cuda::emulator
