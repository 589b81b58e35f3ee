// Log-probabilities of rows of scores.
#pragma once

#include "kernels/cuda/row_stretches.h"
#include "kernels/cuda/stream.h"
#include "kernels/matrix_view.h"

namespace sluice::cuda {

struct LogSoftmaxTask {
  MatrixView x, out;               // [T, V] F32, may be the same
  ExponentialSum* sums = nullptr;  // [T, NumStretches(V)]
};

using LaunchLogSoftmax = void (*)(Stream, const LogSoftmaxTask&);

}  // namespace sluice::cuda
