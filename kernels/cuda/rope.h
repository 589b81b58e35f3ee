// Rotary positions.
#pragma once

#include <cstdint>

#include "kernels/cuda/kv_pool.h"
#include "kernels/cuda/stream.h"
#include "kernels/matrix_view.h"

namespace sluice::cuda {

struct RopeTask {
  MatrixView x;  // [T, heads * head_dim] F32, turned in place
  int head_dim = 0;
  MatrixView cos, sin;             // [rows, pairs] F32
  const RowPlace* rows = nullptr;  // [T], whose positions are rows of the tables; null: row t
  bool interleaved = false;
};

using LaunchRope = void (*)(Stream, const RopeTask&);

}  // namespace sluice::cuda
