// How many threads a kernel is launched with.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice::cuda {

struct LaunchShape {
  int64_t blocks = 0;  // 0: nothing is launched
  int threads = 0;     // of a block, a multiple of 32
  size_t shared_bytes = 0;
  int cluster = 1;  // blocks side by side that reach each other's shared memory
};

}  // namespace sluice::cuda
