#include "kernels/device.h"

#include "kernels/check.h"

namespace sluice {

absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(const DeviceOptions& options) {
  switch (options.kind) {
    case DeviceKind::kCpu:
      return MakeCpuBackend(options.cpu);
  }
  SLUICE_CHECK(false);
  return nullptr;
}

}  // namespace sluice
