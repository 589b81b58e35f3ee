// Elements of matrices, and sums over the threads of a block, in kernels. After simt.h.
#pragma once

#include "kernels/cuda/fragment.h"
#include "kernels/dtype.h"
#include "kernels/matrix_view.h"

namespace sluice::cuda::SIMT_NAMESPACE {

template <class T = float>
SIMT_DEVICE T* RowOf(const MatrixView& matrix, int64_t row) {
  return static_cast<T*>(matrix.data) + row * matrix.stride;
}

SIMT_DEVICE float Widened(uint16_t bits) { return FloatFromBits(uint32_t{bits} << 16); }
SIMT_DEVICE uint16_t Rounded(float value) {
  return static_cast<uint16_t>(PackBFloat16(value, 0.0f));
}

// F32 or BF16.
SIMT_DEVICE float LoadElement(const MatrixView& matrix, int64_t row, int64_t col) {
  if (matrix.dtype == DType::kF32) return RowOf<float>(matrix, row)[col];
  return Widened(RowOf<uint16_t>(matrix, row)[col]);
}
SIMT_DEVICE void StoreElement(const MatrixView& matrix, int64_t row, int64_t col, float value) {
  if (matrix.dtype == DType::kF32) {
    RowOf<float>(matrix, row)[col] = value;
  } else {
    RowOf<uint16_t>(matrix, row)[col] = Rounded(value);
  }
}

SIMT_DEVICE bool IsFinite(float value) { return (BitsOf(value) & 0x7f800000u) != 0x7f800000u; }
SIMT_DEVICE bool IsNaN(float value) { return value != value; }

// Joins one value of each lane, or of each thread (a power of two of warps), pairwise in an order
// that depends on their number alone; all get the result. `scratch` holds a value per warp; it may be used again after
// the block's next barrier.
struct Plus {
  template <class T>
  SIMT_DEVICE T operator()(T a, T b) const {
    return a + b;
  }
};
struct Larger {
  template <class T>
  SIMT_DEVICE T operator()(T a, T b) const {
    return a < b ? b : a;
  }
};
struct Smaller {
  template <class T>
  SIMT_DEVICE T operator()(T a, T b) const {
    return b < a ? b : a;
  }
};

template <class T, class Join>
SIMT_DEVICE T JoinLanes(T value, Join join) {
  for (int mask = kWarpSize / 2; mask > 0; mask /= 2) value = join(value, ShuffleXor(value, mask));
  return value;
}
template <class T, class Join>
SIMT_DEVICE T JoinThreads(T value, Join join, T* scratch) {
  value = JoinLanes(value, join);
  const int num_warps = NumThreads() / kWarpSize;
  Barrier();
  if (Thread() % kWarpSize == 0) scratch[Thread() / kWarpSize] = value;
  Barrier();
  // Pairs of neighbours, pairs of pairs and so on, the lower one first: every warp joins them all.
  const int lane = Thread() % kWarpSize;
  value = scratch[lane % num_warps];
  for (int step = 1; step < num_warps; step *= 2) {
    const T other = ShuffleXor(value, step);
    value = (lane & step) == 0 ? join(value, other) : join(other, value);
  }
  return value;
}

}  // namespace sluice::cuda::SIMT_NAMESPACE
