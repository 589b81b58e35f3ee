// The rank group of GPUs: chooses with every epoch what moves the bytes (kernels/gpu_ranks), NCCL,
// copies that streams wait for where ranks share a GPU, or the communicator where they share a
// process; adds by the backend's tree.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/rank_group.h"

namespace sluice::cuda {

// RESOURCE_EXHAUSTED where the device lacks memory. Where none of it can be shared with other
// processes, Join() says so to those that need it. The backend must outlive it.
absl::StatusOr<std::unique_ptr<RankGroup>> NewCudaRankGroup(const RankGroupSpec& spec,
                                                            CudaDevice& backend);

}  // namespace sluice::cuda
