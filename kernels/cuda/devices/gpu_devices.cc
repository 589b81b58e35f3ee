#include "kernels/gpu/gpu_devices.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/products_path.h"
#include "kernels/cuda/ranks/cuda_rank_group.h"
#include "kernels/cuda/runtime/cuda_gpu.h"

namespace sluice {
namespace {

std::string TextOf(cudaError_t error) {
  return error == cudaSuccess
             ? ""
             : absl::StrCat(cudaGetErrorName(error), ": ", cudaGetErrorString(error));
}

GpuFacts FactsOf(int index) {
  GpuFacts facts;
  cudaDeviceProp properties;
  facts.refusal = TextOf(cudaGetDeviceProperties(&properties, index));
  if (!facts.refusal.empty()) return facts;
  facts.name = properties.name;
  std::memcpy(facts.uuid.data(), properties.uuid.bytes, facts.uuid.size());
  facts.compute_major = properties.major;
  facts.compute_minor = properties.minor;
  facts.num_multiprocessors = properties.multiProcessorCount;
  facts.total_bytes = properties.totalGlobalMem;
  return facts;
}

}  // namespace

bool BuiltForGpus() { return true; }

bool GpusAreEmulated() {
#ifdef SLUICE_EMULATED_GPU
  return true;
#else
  return false;
#endif
}

DriverFacts QueryGpus() {
  DriverFacts facts;
  // A missing driver has version 0, and no error.
  if (cudaDriverGetVersion(&facts.driver_version) != cudaSuccess) facts.driver_version = 0;
  if (cudaRuntimeGetVersion(&facts.runtime_version) != cudaSuccess)
    facts.runtime_version = CUDART_VERSION;
  if (const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES")) {
    facts.visible_devices = visible;
  }
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  facts.failure = TextOf(error);
  if (error == cudaSuccess) {
    for (int index = 0; index < count; ++index) facts.gpus.push_back(FactsOf(index));
  }
  cudaGetLastError();  // said here, and no later call's
  return facts;
}

absl::StatusOr<std::unique_ptr<Backend>> MakeGpuBackend(int index, GpuBackendOptions options) {
  absl::StatusOr<std::unique_ptr<cuda::Gpu>> gpu =
      cuda::OpenCudaGpu(index, options.products, std::move(options.on_lost), options.plan);
  if (!gpu.ok()) return gpu.status();
  auto backend =
      cuda::CudaBackend::Create(*std::move(gpu), {.on_unrecorded = std::move(options.on_unrecorded),
                                                  .new_rank_group = cuda::NewCudaRankGroup});
  if (!backend.ok()) return backend.status();
  return std::unique_ptr<Backend>(*std::move(backend));
}

}  // namespace sluice
