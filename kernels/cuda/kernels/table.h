// The tables of kernels, one per platform.
#pragma once

#include "kernels/cuda/kernels.h"

namespace sluice::cuda {
namespace on_gpu {
const Kernels& KernelTable();
}
namespace on_host {
const Kernels& KernelTable();
}
}  // namespace sluice::cuda
