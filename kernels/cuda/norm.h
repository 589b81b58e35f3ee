// RMSNorm and LayerNorm of rows, or of each head of a row.
#pragma once

#include <cstdint>

#include "kernels/cuda/stream.h"
#include "kernels/matrix_view.h"

namespace sluice::cuda {

// The numbers of a row that are normalised together are added up in sums of their own, element i
// going to sum i % kNormSums, which are then joined pairwise: the same for a row and for a head.
inline constexpr int kNormSums = 256;

struct NormTask {
  MatrixView x;    // [T, groups * width] F32
  MatrixView out;  // F32 (then it may be x) or BF16
  int64_t width = 0;
  const float* weight = nullptr;  // [width]
  const float* bias = nullptr;    // [width] or null
  float eps = 0;
  bool centred = false;  // LayerNorm, else RMSNorm
};

using LaunchNorm = void (*)(Stream, const NormTask&);

}  // namespace sluice::cuda
