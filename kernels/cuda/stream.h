// What kernels are launched on: a cudaStream_t, or the host's queue (tests/gpu/host).
#pragma once

namespace sluice::cuda {

using Stream = void*;

}  // namespace sluice::cuda
