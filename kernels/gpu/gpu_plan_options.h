// How work on a GPU is shared out and launched where that is not to follow from the GPU alone. A plain
// value.
#pragma once

#include <cstdint>

namespace sluice {

// Bits depend on none of these. Tests and benchmarks set them; services don't.
struct GpuPlanOptions {
  // Multiprocessors that work is shared out for; 0: all that the GPU has. With few, small shapes take
  // the plans that large ones take on the whole GPU.
  int multiprocessors = 0;
  // Rows from which on products take large tiles; 0: as kernels/cuda/gemm_plan.h says.
  int64_t least_rows_of_large_tiles = 0;
  // Whether a kernel may begin while those before it end. Of the whole process.
  bool kernels_overlap = true;
};

}  // namespace sluice
