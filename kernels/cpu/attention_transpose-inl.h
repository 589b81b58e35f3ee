// Keys of the latent layout, transposed for the products of attention. Included once per SIMD
// target (hwy/foreach_target.h), always after hwy/highway.h.
#if defined(SLUICE_KERNELS_CPU_ATTENTION_TRANSPOSE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_KERNELS_CPU_ATTENTION_TRANSPOSE_INL_H_
#undef SLUICE_KERNELS_CPU_ATTENTION_TRANSPOSE_INL_H_
#else
#define SLUICE_KERNELS_CPU_ATTENTION_TRANSPOSE_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"
#include "kernels/cpu/attention_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice {
namespace HWY_NAMESPACE {

// Rows of a square that fits 128-bit vectors.
template <class T>
inline constexpr int64_t kTransposeSide = 16 / sizeof(T);

#if HWY_TARGET != HWY_SCALAR
// to [side, side] = the transpose of from [side, side]; rows are `from_step` and `to_step` apart.
// Each round interleaves row i with row i + side / 2: after log2(side) of them rows have become
// columns.
template <class T>
HWY_INLINE void TransposeSquare(const T* from, int64_t from_step, T* to, int64_t to_step) {
  constexpr int64_t kSide = kTransposeSide<T>;
  const hn::Full128<T> d;
  hn::Vec<decltype(d)> rows[kSide], mixed[kSide];
#pragma GCC unroll 16
  for (int64_t i = 0; i < kSide; ++i) rows[i] = hn::LoadU(d, from + i * from_step);
#pragma GCC unroll 4
  for (int64_t round = 1; round < kSide; round *= 2) {
#pragma GCC unroll 8
    for (int64_t i = 0; i < kSide / 2; ++i) {
      mixed[2 * i] = hn::InterleaveLower(d, rows[i], rows[i + kSide / 2]);
      mixed[2 * i + 1] = hn::InterleaveUpper(d, rows[i], rows[i + kSide / 2]);
    }
#pragma GCC unroll 16
    for (int64_t i = 0; i < kSide; ++i) rows[i] = mixed[i];
  }
#pragma GCC unroll 16
  for (int64_t i = 0; i < kSide; ++i) hn::StoreU(rows[i], d, to + i * to_step);
}
#endif

// to [cols, rows] = the transpose of from [rows, cols], both without gaps.
template <class T>
void TransposeBlock(const T* from, int64_t rows, int64_t cols, T* to) {
  int64_t whole_rows = 0, whole_cols = 0;
#if HWY_TARGET != HWY_SCALAR
  constexpr int64_t kSide = kTransposeSide<T>;
  whole_rows = rows / kSide * kSide;
  whole_cols = cols / kSide * kSide;
  for (int64_t c = 0; c < whole_cols; c += kSide) {
    for (int64_t r = 0; r < whole_rows; r += kSide) {
      TransposeSquare(from + r * cols + c, cols, to + c * rows + r, rows);
    }
  }
#endif
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t first = r < whole_rows ? whole_cols : 0;
    for (int64_t c = first; c < cols; ++c) to[c * rows + r] = from[r * cols + c];
  }
}

// The keys of a run, whose blocks are [block_size, head_dim], from now on [head_dim, block_size] in
// `to`.
template <class T>
void TransposeKeys(int64_t head_dim, int64_t block_size, T* to, BlockRun<T>* run) {
  for (int64_t b = 0; b < kBlocksPerRun; ++b) {
    if (b < run->count) {
      TransposeBlock(run->keys[b], block_size, head_dim, to);
      run->keys[b] = to;
      to += head_dim * block_size;
    } else {
      run->keys[b] = run->keys[b - 1];
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace sluice
HWY_AFTER_NAMESPACE();

#endif  // SLUICE_KERNELS_CPU_ATTENTION_TRANSPOSE_INL_H_
