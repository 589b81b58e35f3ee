// What becomes of a block's sums, and how they leave it. What all elements have alike is asked once, not
// for each of a thread's 64: whether there is a bias, which activation, where results go. After simt.h.
#pragma once

#include "kernels/cuda/kernels/epilogue.h"
#include "kernels/cuda/kernels/gemm_sums.h"

namespace sluice::cuda::SIMT_NAMESPACE {

SIMT_DEVICE float Widened(float value) { return value; }
SIMT_DEVICE void StoreAs(float value, float* to) { *to = value; }
SIMT_DEVICE void StoreAs(float value, uint16_t* to) { *to = Rounded(value); }

template <class Sums>
class BlockResults {
 public:
  // Of a warp whose tiles begin with `first_tile` and whose tokens with `first_token`.
  SIMT_DEVICE BlockResults(const EpilogueTask& task, int first_tile, int first_token, int lane,
                           Sums& sums)
      : task_(task),
        sums_(sums),
        first_row_(first_token + lane % 4 * 2),
        first_column_(int64_t{first_tile} * TileColumns() + lane / 4) {}

  // What WriteResult (epilogue.h) makes of each, in the same order.
  SIMT_DEVICE void Write() {
    if (task_.bias != nullptr) AddBias();
    if (task_.has_activation) Activate();
    if (task_.gated) Gate();
    if (task_.out.dtype == DType::kF32) {
      task_.add_to_out ? WriteAs<float, true>() : WriteAs<float, false>();
    } else {
      task_.add_to_out ? WriteAs<uint16_t, true>() : WriteAs<uint16_t, false>();
    }
  }

 private:
  static constexpr GemmTileShape kShape = Sums::kShape;

  // Rows 8 to 15 of a gated tile are the ups of rows 0 to 7.
  SIMT_DEVICE int TileColumns() const { return task_.gated ? kTileOutputs / 2 : kTileOutputs; }
  // Where the thread's sums 0 and 1 of a tile go; 2 and 3 go 8 further on, where they are no ups.
  SIMT_DEVICE int64_t ColumnOf(int m) const { return first_column_ + m * TileColumns(); }

  // Calls f(m, four sums) for the thread's.
  template <class F>
  SIMT_DEVICE void ForColumns(F f) {
    SIMT_UNROLL
    for (int m = 0; m < kShape.tiles_per_warp; ++m) {
      SIMT_UNROLL
      for (int n = 0; n < kShape.columns_per_warp; ++n) f(m, sums_.Of(m)[n]);
    }
  }

  SIMT_DEVICE void AddBias() {
    const int64_t cols = task_.out.cols;
    const int64_t apart = task_.gated ? cols : 8, end = task_.gated ? 2 * cols : cols;
    float bias[kShape.tiles_per_warp][2];
    SIMT_UNROLL
    for (int m = 0; m < kShape.tiles_per_warp; ++m) {
      const int64_t col = ColumnOf(m);
      bias[m][0] = col < cols ? task_.bias[col] : 0.0f;
      bias[m][1] = col + apart < end ? task_.bias[col + apart] : 0.0f;
    }
    ForColumns([&](int m, float(&sums)[4]) {
      SIMT_UNROLL
      for (int i = 0; i < 4; ++i) sums[i] += bias[m][i / 2];
    });
  }

  SIMT_DEVICE void Activate() {
    switch (task_.activation) {
      case Activation::kRelu:
        return ActivateBy<Activation::kRelu>();
      case Activation::kSilu:
        return ActivateBy<Activation::kSilu>();
      case Activation::kGelu:
        return ActivateBy<Activation::kGelu>();
      case Activation::kGeluTanh:
        return ActivateBy<Activation::kGeluTanh>();
      case Activation::kClampedSwiGlu:
        return;  // of mixtures, which no GPU computes
    }
  }
  template <Activation kActivation>
  SIMT_DEVICE void ActivateBy() {
    ForColumns([&](int, float(&sums)[4]) {
      sums[0] = Activated(kActivation, sums[0]);
      sums[1] = Activated(kActivation, sums[1]);
      if (task_.gated) return;
      sums[2] = Activated(kActivation, sums[2]);
      sums[3] = Activated(kActivation, sums[3]);
    });
  }
  SIMT_DEVICE void Gate() {
    ForColumns([](int, float(&sums)[4]) {
      sums[0] *= sums[2];
      sums[1] *= sums[3];
    });
  }

  // Columns of 8 tokens whose results leave together: 16 of the thread's elements.
  static constexpr int kAtATime = kShape.columns_per_warp < 4 ? kShape.columns_per_warp : 4;

  // Calls f(i, sum, its place) for those of tile m in columns from `first` on that have one; `i` counts
  // up to 4 * kAtATime.
  template <class T, class F>
  SIMT_DEVICE void ForPlaces(int m, int first, F f) {
    const int64_t col = ColumnOf(m);
    const int rows = static_cast<int>(task_.out.rows) - first_row_;
    const bool has[2] = {col < task_.out.cols, !task_.gated && col + 8 < task_.out.cols};
    T* const begin = RowOf<T>(task_.out, first_row_) + col;
    SIMT_UNROLL
    for (int i = 0; i < 4 * kAtATime; ++i) {
      const int row = (first + i / 4) * 8 + i % 2, half = i % 4 / 2;
      if (row >= rows || !has[half]) continue;
      f(i, sums_.Of(m)[first + i / 4][i % 4], begin + row * task_.out.stride + half * 8);
    }
  }

  // What was there is read for several elements before the first of them is written: a read waits for
  // writes that may be to its place, so that each would be waited for by itself.
  template <class T, bool kAdds>
  SIMT_DEVICE void WriteAs() {
    SIMT_UNROLL
    for (int m = 0; m < kShape.tiles_per_warp; ++m) {
      SIMT_UNROLL
      for (int first = 0; first < kShape.columns_per_warp; first += kAtATime) {
        T before[4 * kAtATime] = {};
        if constexpr (kAdds) {
          ForPlaces<T>(m, first, [&](int i, float, const T* from) { before[i] = *from; });
        }
        ForPlaces<T>(m, first, [&](int i, float sum, T* to) {
          if constexpr (kAdds) sum += Widened(before[i]);
          StoreAs(sum, to);
        });
      }
    }
  }

  const EpilogueTask& task_;
  Sums& sums_;
  const int first_row_;
  const int64_t first_column_;
};

}  // namespace sluice::cuda::SIMT_NAMESPACE
