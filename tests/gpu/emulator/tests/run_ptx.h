// A kernel written down in a test, carried out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tests/gpu/emulator/machine/launch.h"

namespace sluice::cuda::emulator::testing {

struct Shape {
  int64_t blocks = 1;
  int threads = 32;
  int cluster = 1;
  size_t shared_bytes = 4096;
};

// One after another in a stream.
struct PtxLaunch {
  std::string body;
  Shape shape = {};
  bool may_overlap = false;
  std::string functions = "";  // that it calls
  Traffic* traffic = nullptr;
};

// Carries out kernels whose bodies have registers %p, %rs, %r, %rd, %f and %fd, %rd1 with the address
// of `data`, %r1 and %r2 with the thread's and the block's number, and shared memory called s. The
// last one ends by itself.
absl::Status RunPtx(const std::vector<PtxLaunch>& launches, std::vector<uint32_t>& data);
absl::Status RunPtx(const std::string& body, std::vector<uint32_t>& data, const Shape& shape = {});

// Lines of `count` registers: "{%f10, %f11, ...}".
std::string Registers(const std::string& family, int first, int count);

}  // namespace sluice::cuda::emulator::testing
