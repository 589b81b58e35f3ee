// A Gpu that carries the kernels out on the host, for tests: the backend, its kernels, its staging
// and its recordings, without a device. Work is done when it is waited for, not before; memory is
// the host's, filled with NaN, each allocation by itself, so that address sanitizers see what lies
// beside it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "kernels/cuda/gpu.h"

namespace sluice::cuda {

struct HostGpuOptions {
  // Of memory that another process shares: drivers need not.
  bool tells_sizes = true;
  // What plans are made for; blocks run one after the other all the same.
  int num_multiprocessors = 4;
  size_t shared_bytes = 227 << 10;
  GemmPath gemm_path = GemmPath::kPortable;
  bool multiplies_fp8 = false;
  // Of its memory; what goes beyond is refused.
  size_t memory_bytes = size_t{1} << 40;
  // Whether work can be recorded: what a GPU's driver refuses is found out by recording it.
  bool can_record = true;
};

std::unique_ptr<Gpu> MakeHostGpu(const HostGpuOptions& options = {});

// How many kernels were launched on such a Gpu so far.
int64_t NumLaunches(Gpu& gpu);

}  // namespace sluice::cuda
