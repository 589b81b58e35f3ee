// A sum over ranks on its way into the residual stream, and the norm that follows it.
#pragma once

#include <cstdint>

#include "kernels/cuda/stream.h"
#include "kernels/matrix_view.h"

namespace sluice::cuda {

inline constexpr int kMostSummedRanks = 8;

// residual += the balanced binary tree over `partials` + bias; normed = the norm of that, as NormTask's.
struct SumToResidualTask {
  MatrixView partials[kMostSummedRanks];  // [T, H] F32
  int count = 0;                          // 1, 2, 4 or 8
  MatrixView residual;                    // [T, H] F32
  const float* bias = nullptr;            // [H] or null
  MatrixView normed;                      // [T, H] F32 or BF16; data null: no norm follows
  const float* norm_weight = nullptr;     // [H]
  const float* norm_bias = nullptr;       // [H] or null
  float eps = 0;
  bool centred = false;  // LayerNorm, else RMSNorm
};

using LaunchSumToResidual = void (*)(Stream, const SumToResidualTask&);

}  // namespace sluice::cuda
