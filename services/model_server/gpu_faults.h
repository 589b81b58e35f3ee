// Containment of faulty GPU kernels. The self-check of a GPU runs in a child process: a kernel that
// hangs or crashes fails the check as a wrong result does, and the server uses other instructions.
// A process that has lost its GPU ends; the supervisor starts another.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "kernels/device/make_backend.h"
#include "kernels/gpu/gpu_facts.h"

namespace sluice {

// Fills in check_gpu and on_gpu_lost, for a program whose main() begins with RunGpuCheck and that
// can be started again as `program`; nothing where that is empty.
void GuardAgainstGpuFaults(const std::string& program, DeviceOptions& device);

// Some seconds are a context of the driver on a machine of many GPUs that was idle, and
// milliseconds the check.
inline constexpr absl::Duration kGpuCheckLimit = absl::Seconds(20);

// CheckGpuProducts (kernels/device/make_backend.h) by `program`, whose main() begins with
// RunGpuCheck. INTERNAL where it fails, ends otherwise or, after `limit`, has not ended: it is
// killed then. What went wrong is on stderr. By this process where no other can be started.
absl::Status CheckGpuApart(const std::string& program, int index, GpuProducts products,
                           absl::Duration limit = kGpuCheckLimit);

// Where the arguments are those of CheckGpuApart: checks, and returns the exit code.
std::optional<int> RunGpuCheck(int argc, char** argv);

}  // namespace sluice
