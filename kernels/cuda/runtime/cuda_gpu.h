// NVIDIA's GPUs as a Gpu: device memory, one stream, stream capture, through the CUDA runtime.
#pragma once

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/gpu.h"
#include "kernels/gpu/gpu_facts.h"
#include "kernels/gpu/gpu_plan_options.h"

namespace sluice::cuda {

// The GPU that the runtime numbers `index`. FAILED_PRECONDITION where there is none, the driver is
// missing or too old, the GPU is older than compute capability 8.0, or it can't take `products`.
// `on_lost`, `plan`: see GpuBackendOptions (kernels/gpu/gpu_devices.h).
absl::StatusOr<std::unique_ptr<Gpu>> OpenCudaGpu(int index,
                                                 GpuProducts products = GpuProducts::kPortable,
                                                 std::function<void(absl::Status)> on_lost = {},
                                                 const GpuPlanOptions& plan = {});

}  // namespace sluice::cuda
