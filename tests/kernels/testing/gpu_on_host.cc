#include "tests/kernels/testing/gpu_on_host.h"

#include <utility>

#include "kernels/check.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/host/host_gpu.h"

namespace sluice::testing {

bool HasGpuOnHost() { return true; }

std::unique_ptr<Backend> NewGpuOnHost(const GpuOnHostOptions& options) {
  auto backend = cuda::CudaBackend::Create(cuda::MakeHostGpu(
      {.num_multiprocessors = options.num_multiprocessors,
       .gemm_path = options.hopper ? cuda::GemmPath::kHopper : cuda::GemmPath::kPortable}));
  SLUICE_CHECK(backend.ok());
  return *std::move(backend);
}

}  // namespace sluice::testing
