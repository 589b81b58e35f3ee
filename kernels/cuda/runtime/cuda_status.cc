#include "kernels/cuda/runtime/cuda_status.h"

#include "absl/strings/str_cat.h"

namespace sluice::cuda {
namespace {

absl::StatusCode CodeOf(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return absl::StatusCode::kResourceExhausted;
    case cudaErrorNoDevice:
    case cudaErrorInvalidDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorUnsupportedPtxVersion:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorStubLibrary:
      return absl::StatusCode::kFailedPrecondition;
    default:
      return absl::StatusCode::kInternal;
  }
}

}  // namespace

absl::Status StatusOf(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return absl::OkStatus();
  return absl::Status(CodeOf(error), absl::StrCat(cudaGetErrorName(error), ": ",
                                                  cudaGetErrorString(error), " (", call, ")"));
}

absl::Status ToldStatusOf(cudaError_t error, const char* call) {
  if (error != cudaSuccess) cudaGetLastError();
  return StatusOf(error, call);
}

}  // namespace sluice::cuda
