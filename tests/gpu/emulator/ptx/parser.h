// Reads PTX as nvcc writes it: kernels and functions without debugging lines; of variables, shared
// memory whose size the launch says, and parameters.
#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tests/gpu/emulator/ptx/module.h"

namespace sluice::cuda::emulator {

// INVALID_ARGUMENT names the line. What an instruction does is not looked at.
absl::StatusOr<Module> ParsePtx(absl::string_view ptx);

}  // namespace sluice::cuda::emulator
