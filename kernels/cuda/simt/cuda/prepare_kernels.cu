#include "kernels/cuda/simt/cuda/prepare_kernels.h"

#include "simt.h"

namespace sluice::cuda::on_gpu {

void PrepareKernels() {
  int device = 0, most_shared_bytes = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&most_shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  for (const void* const kernel : KnownKernels()) {
    // Refused where the kernel is another generation's.
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most_shared_bytes);
    // One division of a multiprocessor's memory for all: to change it takes an idle one, and kernels
    // overlap.
    cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                         cudaSharedmemCarveoutMaxShared);
    cudaGetLastError();
  }
}

void LetKernelsOverlap(bool may) { OverlapIsWanted() = may; }

}  // namespace sluice::cuda::on_gpu
