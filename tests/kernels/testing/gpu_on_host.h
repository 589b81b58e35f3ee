// The backend of GPUs with its kernels carried out on the host.
#pragma once

#include <memory>

#include "kernels/backend.h"

namespace sluice::testing {

// Whether this build has it: ThreadSanitizer's does not.
bool HasGpuOnHost();

// Plans are made for so many multiprocessors; products by wgmma where `hopper`.
struct GpuOnHostOptions {
  int num_multiprocessors = 4;
  bool hopper = false;
};
std::unique_ptr<Backend> NewGpuOnHost(const GpuOnHostOptions& options = {});

}  // namespace sluice::testing
