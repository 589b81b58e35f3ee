#include "kernels/check.h"
#include "tests/kernels/testing/gpu_on_host.h"

namespace sluice::testing {

bool HasGpuOnHost() { return false; }

std::unique_ptr<Backend> NewGpuOnHost(const GpuOnHostOptions&) {
  SLUICE_CHECK(false);
  return nullptr;
}

}  // namespace sluice::testing
