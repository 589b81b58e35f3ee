// Products of activations and packed weights.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/activation.h"
#include "kernels/cuda/gemm_plan.h"
#include "kernels/cuda/stream.h"
#include "kernels/matrix_view.h"
#include "kernels/weight_format.h"

namespace sluice::cuda {

// GemmEpilogue of kernels/backend.h.
struct EpilogueTask {
  const float* bias = nullptr;
  bool has_activation = false;
  Activation activation = Activation::kRelu;
  bool gated = false;
  bool add_to_out = false;
  MatrixView out;  // F32 or BF16
};

// A weight matrix of the device.
struct WeightImage {
  WeightFormat format = WeightFormat::kBF16;
  const std::byte* data = nullptr;  // tile_image.h; F32: rows of K one after another
  int64_t num_outputs = 0;          // N
  int64_t num_inputs = 0;           // K
  bool gated = false;
  RunShape runs;
};

// out^T = W x^T by matrix instructions, weights in any format but F32. INT8 and INT4 weights are
// multiplied as the whole numbers they are, which BF16 holds exactly; each group's sum is then
// multiplied with its scale. FP8 weights are multiplied as BF16 ones, scale times number: exactly where
// the scale is a power of two, else rounded to BF16.
struct GemmTask {
  WeightImage weights;
  // [T, num_runs * padded_depth] BF16, rows at multiples of 16 bytes; an image of them (token_image.h)
  // where the plan's path is kPipelined.
  MatrixView x;
  EpilogueTask epilogue;
  GemmPlan plan;
  float* partials = nullptr;     // [plan.partial_floats()]
  unsigned* counters = nullptr;  // [plan.counters()], zero before and after
};

// The same with F32 weights, element by element: one fused multiply-add after another over each
// run.
struct FloatGemmTask {
  WeightImage weights;
  MatrixView x;  // [T, K] F32 or BF16
  EpilogueTask epilogue;
};

// Writes rows [first_row, first_row + num_rows), which lie in the format of weight_format.h at
// `rows`, to their places in the image.
struct PackTask {
  WeightImage weights;
  std::byte* image = nullptr;  // weights.data, to be written
  const std::byte* rows = nullptr;
  int64_t first_row = 0;
  int64_t num_rows = 0;
};

// Writes the image (token_image.h) of x, rounded to BF16, each run filled up to padded_depth.
struct TokenImageTask {
  MatrixView x;  // [T, num_runs * depth] F32 or BF16
  std::byte* image = nullptr;
  RunShape runs;
};

using LaunchTokenImage = void (*)(Stream, const TokenImageTask&);
using LaunchGemm = void (*)(Stream, const GemmTask&);
using LaunchFloatGemm = void (*)(Stream, const FloatGemmTask&);
using LaunchPack = void (*)(Stream, const PackTask&);

}  // namespace sluice::cuda
