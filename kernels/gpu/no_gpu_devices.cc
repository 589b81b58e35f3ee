#include "kernels/check.h"
#include "kernels/gpu/gpu_devices.h"

namespace sluice {

bool BuiltForGpus() { return false; }

bool GpusAreEmulated() { return false; }

DriverFacts QueryGpus() { return {}; }

absl::StatusOr<std::unique_ptr<Backend>> MakeGpuBackend(int /*index*/,
                                                        GpuBackendOptions /*options*/) {
  SLUICE_CHECK(BuiltForGpus());
  return nullptr;
}

}  // namespace sluice
