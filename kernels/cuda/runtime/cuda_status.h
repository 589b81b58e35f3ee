// Errors of the CUDA runtime as statuses.
#pragma once

#include <cuda_runtime_api.h>

#include "absl/status/status.h"

namespace sluice::cuda {

// RESOURCE_EXHAUSTED for memory, FAILED_PRECONDITION where there is no driver or device or it can't
// run this build, INTERNAL otherwise; names `call` and what CUDA calls the error.
absl::Status StatusOf(cudaError_t error, const char* call);

// The same where the caller tells a failure itself: it is CUDA's last error no more, which the next
// wait of this thread would take for a launch's.
absl::Status ToldStatusOf(cudaError_t error, const char* call);

}  // namespace sluice::cuda

// Returns the status of a failed call, which is told thereby, from the function around it.
#define SLUICE_RETURN_IF_CUDA_ERROR(call)                                            \
  if (absl::Status sluice_cuda_status = ::sluice::cuda::ToldStatusOf((call), #call); \
      !sluice_cuda_status.ok())                                                      \
  return sluice_cuda_status
