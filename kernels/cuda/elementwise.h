// Sums and products element by element, each with one rounding.
#pragma once

#include <cstdint>

#include "kernels/cuda/stream.h"
#include "kernels/matrix_view.h"

namespace sluice::cuda {

enum class ElementwiseKind : uint8_t {
  kScale,      // x *= factor
  kAdd,        // x[t, n] += operand[t, n]
  kScaleRows,  // x[t, n] *= operand[t, 0]
  kSoftCap,    // x = factor * tanh(x / factor)
};

struct ElementwiseTask {
  ElementwiseKind kind = ElementwiseKind::kAdd;
  MatrixView x;        // [T, N] F32
  MatrixView operand;  // [1, N], [T, N] or, of kScaleRows, [T, 1] F32
  float factor = 1;
};

inline constexpr int kMostPartials = 16;

// out = the balanced binary tree over `partials`, a power of two of them; out may be one of them.
struct TreeAddTask {
  MatrixView partials[kMostPartials];  // [T, N] F32
  int count = 0;
  MatrixView out;
};

// Activations on their way to a product: rounded to BF16, and cut in `num_runs` runs of `depth`,
// each of which begins at a multiple of `padded_depth` and is filled up with zeroes.
struct RearrangeTask {
  MatrixView x;    // [T, num_runs * depth] F32 or BF16
  MatrixView out;  // [T, num_runs * padded_depth] BF16
  int64_t depth = 0;
  int64_t padded_depth = 0;
};

using LaunchElementwise = void (*)(Stream, const ElementwiseTask&);
using LaunchTreeAdd = void (*)(Stream, const TreeAddTask&);
using LaunchRearrange = void (*)(Stream, const RearrangeTask&);

}  // namespace sluice::cuda
