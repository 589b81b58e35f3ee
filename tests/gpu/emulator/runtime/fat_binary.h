// What nvcc puts into an object for each file of kernels, as the CUDA runtime is handed it.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace sluice::cuda::emulator {

// The texts of PTX in a fat binary (what __cudaRegisterFatBinary is given). FAILED_PRECONDITION where
// it has none, or they are compressed: it is to be made with code=compute_90a and --no-compress.
absl::StatusOr<std::vector<std::string>> PtxOf(const void* fat_binary);

}  // namespace sluice::cuda::emulator
