// Chooses among the kinds of devices that this build has. Nothing above kernels/ knows which it
// got.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/cpu/cpu_backend.h"

namespace sluice {

enum class DeviceKind { kCpu };

struct DeviceOptions {
  DeviceKind kind = DeviceKind::kCpu;
  CpuBackendOptions cpu;
};

// The status of a device that can't be used: missing, of another architecture, out of memory. A CPU
// always can.
absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(const DeviceOptions& options);

}  // namespace sluice
