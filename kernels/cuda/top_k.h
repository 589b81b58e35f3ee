// The largest elements of rows.
#pragma once

#include <cstdint>

#include "kernels/cuda/stream.h"
#include "kernels/matrix_view.h"

namespace sluice::cuda {

// What the host sorts: the k largest of row t, ties by the lower column, NaN counting as smallest,
// by ascending column at [t * k, (t + 1) * k).
struct TopKTask {
  MatrixView x;  // [T, V] F32
  int k = 0;
  float* values = nullptr;
  int32_t* ids = nullptr;
};

using LaunchTopK = void (*)(Stream, const TopKTask&);

}  // namespace sluice::cuda
