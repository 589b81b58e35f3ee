// What a product makes of its sums before it writes them. After simt.h.
#pragma once

#include "kernels/cuda/gemm.h"
#include "kernels/cuda/kernels/elements.h"

namespace sluice::cuda::SIMT_NAMESPACE {

SIMT_DEVICE float Activated(Activation activation, float z) {
  switch (activation) {
    case Activation::kRelu:
      return z < 0 ? 0.0f : z;
    case Activation::kSilu:
      return z / (1 + Exp(-z));
    case Activation::kGelu:
      return z * 0.5f * ErrorFunctionComplement(z * -0.70710678118654752f);
    case Activation::kGeluTanh: {
      // (1 + tanh(y)) / 2 is 1 / (1 + exp(-2 y)).
      const float y = 0.79788456080286536f * (z + 0.044715f * z * z * z);
      return z / (1 + Exp(-2 * y));
    }
    case Activation::kClampedSwiGlu:
      break;  // of mixtures, which no GPU computes
  }
  return z;
}

// Writes output `col` of token `row`; `up` counts where the weights are gated.
SIMT_DEVICE void WriteResult(const EpilogueTask& task, int64_t row, int64_t col, float sum,
                             float up) {
  if (task.bias != nullptr) {
    sum += task.bias[col];
    if (task.gated) up += task.bias[task.out.cols + col];
  }
  if (task.has_activation) sum = Activated(task.activation, sum);
  if (task.gated) sum *= up;
  if (task.add_to_out) sum += LoadElement(task.out, row, col);
  StoreElement(task.out, row, col, sum);
}

}  // namespace sluice::cuda::SIMT_NAMESPACE
