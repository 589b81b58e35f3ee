// The backend of GPUs with its kernels carried out on the host.
#pragma once

#include <memory>

#include "kernels/backend.h"
#include "kernels/gpu/gpu_facts.h"

namespace sluice::testing {

// Whether this build has it: ThreadSanitizer's does not.
bool HasGpuOnHost();

// Plans are made for so many multiprocessors.
struct GpuOnHostOptions {
  int num_multiprocessors = 4;
  GpuProducts products = GpuProducts::kPortable;
  // Of products, large ones too, that are not fetched in bulk.
  bool without_pipeline = false;
};
std::unique_ptr<Backend> NewGpuOnHost(const GpuOnHostOptions& options = {});

}  // namespace sluice::testing
