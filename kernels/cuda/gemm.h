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
  ImageFormat format = ImageFormat::kBF16;
  const std::byte* data = nullptr;  // tile_image.h; F32: rows of K one after another
  int64_t num_outputs = 0;          // N
  int64_t num_inputs = 0;           // K
  bool gated = false;
  RunShape runs;  // of pairs: in pairs
  // Where activations become FP8 numbers by slices (kernels/fp8_activations.h): how many slices there
  // are, else 0. Runs are equal parts of them.
  int fp8_slices = 0;
  const float* scales = nullptr;  // of pairs: tile_image.h
};

// out^T = W x^T by matrix instructions, weights in any format but F32. INT8 and INT4 weights are
// multiplied as the whole numbers they are, which BF16 holds exactly; each group's sum is then
// multiplied with its scale. FP8 weights are multiplied as BF16 ones, scale times number: exactly where
// the scale is a power of two, else rounded to BF16. Pairs of FP8 weights are multiplied with pairs of
// FP8 activations, and each run's sum then with both scales.
struct GemmTask {
  WeightImage weights;
  // [T, num_runs * padded_depth] BF16 or pairs, rows at multiples of 16 bytes; an image of them
  // (token_image.h) where the plan's path is kPipelined.
  MatrixView x;
  const float* x_scales = nullptr;  // of pairs: [T, weights.fp8_slices]
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
  float* scales = nullptr;     // weights.scales, to be written
  const std::byte* rows = nullptr;
  int64_t row_bytes = 0;
  int64_t first_row = 0;
  int64_t num_rows = 0;
};

// Writes the image (token_image.h) of x, rounded to BF16, each run filled up to padded_depth.
struct TokenImageTask {
  MatrixView x;  // [T, num_runs * depth] F32 or BF16
  std::byte* image = nullptr;
  RunShape runs;
};

// The same of x rounded to FP8 (kernels/fp8_activations.h), or rows of it: as BF16 numbers, or as pairs
// of codes and, apart from them, their scales.
struct Fp8ActivationsTask {
  MatrixView x;  // [T, K] F32 or BF16
  int num_slices = 1;
  RunShape runs;             // equal parts of the slices, in inputs or in pairs
  std::byte* out = nullptr;  // an image, or rows of num_runs * padded_depth elements of 16 bits
  bool as_image = false;
  float* scales = nullptr;  // [T, num_slices], of pairs; else BF16 numbers are written
};

using LaunchFp8Activations = void (*)(Stream, const Fp8ActivationsTask&);
using LaunchTokenImage = void (*)(Stream, const TokenImageTask&);
using LaunchGemm = void (*)(Stream, const GemmTask&);
using LaunchFloatGemm = void (*)(Stream, const FloatGemmTask&);
using LaunchPack = void (*)(Stream, const PackTask&);

}  // namespace sluice::cuda
