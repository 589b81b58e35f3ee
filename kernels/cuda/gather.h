// Rows and elements by index.
#pragma once

#include <cstdint>

#include "kernels/cuda/stream.h"
#include "kernels/matrix_view.h"

namespace sluice::cuda {

struct GatherRowsTask {
  MatrixView table;               // [N, H] F32 or BF16
  const int32_t* rows = nullptr;  // [T] of the device
  MatrixView out;                 // [T, H] F32
};

struct GatherElementsTask {
  MatrixView x;                             // [T, N] F32
  const MatrixElement* elements = nullptr;  // [count] of the device
  int64_t count = 0;
  float* values = nullptr;  // [count] of the device
};

using LaunchGatherRows = void (*)(Stream, const GatherRowsTask&);
using LaunchGatherElements = void (*)(Stream, const GatherElementsTask&);

}  // namespace sluice::cuda
