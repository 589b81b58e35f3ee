#include "kernels/cuda/runtime/driver_call.h"

#include <cuda_runtime_api.h>

#include "absl/strings/str_cat.h"

namespace sluice::cuda {
namespace {

constexpr unsigned kSinceVersion = 12000;  // of CUDA: these calls need no option of the driver's

}  // namespace

absl::StatusOr<void*> FindDriverCallByName(const char* name) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
  const cudaError_t error =
      cudaGetDriverEntryPointByVersion(name, &found, kSinceVersion, cudaEnableDefault, &result);
  if (error != cudaSuccess || result != cudaDriverEntryPointSuccess || found == nullptr) {
    cudaGetLastError();
    return absl::UnavailableError(absl::StrCat("the driver has no ", name));
  }
  return found;
}

}  // namespace sluice::cuda
