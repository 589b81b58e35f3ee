// The GPUs of this machine, as this build can use them: with CUDA by kernels/cuda, without by
// no_gpu_devices.cc, which has none. Thread-safe.
#pragma once

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/gpu/gpu_facts.h"
#include "kernels/gpu/gpu_plan_options.h"

namespace sluice {

// Whether this build has kernels for GPUs.
bool BuiltForGpus();

// Whether they are carried out on the host (tests/gpu/emulator): what takes a GPU milliseconds
// takes minutes.
bool GpusAreEmulated();

// Asks driver and runtime, which may take a second the first time. Never fails: what went wrong is
// among the facts.
DriverFacts QueryGpus();

struct GpuBackendOptions {
  GpuProducts products = GpuProducts::kPortable;
  // Told, by whoever waits, that the GPU will do nothing more for this process: a kernel has gone
  // astray, or the device is gone. Null: nobody, and every call fails from then on.
  std::function<void(absl::Status)> on_lost;
  // Told, once, why a step could not be recorded: steps like it run as they are called from now on,
  // which takes the host longer. Null: nobody.
  std::function<void(absl::Status)> on_unrecorded;
  GpuPlanOptions plan;
};

// A backend on GPU `index`, which CheckGpu() has found good and ProductsOf() to have such products.
// RESOURCE_EXHAUSTED where its memory is full, otherwise UNAVAILABLE with the runtime's words.
// REQUIRES: BuiltForGpus().
absl::StatusOr<std::unique_ptr<Backend>> MakeGpuBackend(int index, GpuBackendOptions options);

}  // namespace sluice
