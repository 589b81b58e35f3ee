// Products on tile registers: a 16 x 16 tile of sums takes 16 rows of 32 activations and 16 outputs
// of 32 weights at a time. Weights are the stream of vectors of gemm_avx512-inl.h, K padded
// to 32.
//
// `Tiles` is the unit: gemm_amx.cc has the real one, the tests one of plain loops.
//   Begin(), End()        around all other calls
//   Zero<t>()             tile t = 0
//   Load<t>(from, bytes)  tile t = 16 rows of 64 bytes, that many bytes apart
//   Store<t>(to, bytes)
//   Dot<c, a, b>()        c[m, n] += a[m, 2p] b[p, 2n] + a[m, 2p + 1] b[p, 2n + 1] for p = 0 to 15;
//                         a and b hold bfloat16, c floats
#pragma once

#include <cstdint>

#include "kernels/cpu/gemm_kernel.h"

namespace sluice {

inline constexpr int64_t kTileSide = kRowsStep;
inline constexpr int64_t kTileDepth = kRowsDepth;

template <class Tiles>
struct AmxGemm {
  // Two tiles of rows and two of outputs, or one where there is but one.
  template <int kRowTiles, int kVectors>
  static void AddTiles(const std::byte* x, int64_t x_bytes, const std::byte* w, int64_t depth) {
    constexpr int64_t kVectorBytes = kTileSide * 4;
    constexpr int64_t kPairBytes = kVectors * kVectorBytes;
    Tiles::template Zero<0>();
    if constexpr (kVectors > 1) Tiles::template Zero<1>();
    if constexpr (kRowTiles > 1) Tiles::template Zero<2>();
    if constexpr (kRowTiles > 1 && kVectors > 1) Tiles::template Zero<3>();
    for (int64_t k = 0; k < depth; k += kTileDepth) {
      const std::byte* block = w + k / 2 * kPairBytes;
      Tiles::template Load<4>(x + 2 * k, x_bytes);
      Tiles::template Load<6>(block, kPairBytes);
      Tiles::template Dot<0, 4, 6>();
      if constexpr (kVectors > 1) {
        Tiles::template Load<7>(block + kVectorBytes, kPairBytes);
        Tiles::template Dot<1, 4, 7>();
      }
      if constexpr (kRowTiles > 1) {
        Tiles::template Load<5>(x + kTileSide * x_bytes + 2 * k, x_bytes);
        Tiles::template Dot<2, 5, 6>();
        if constexpr (kVectors > 1) Tiles::template Dot<3, 5, 7>();
      }
    }
  }

  template <int kTile>
  static void StoreTile(int64_t rows, float* sums) {
    if (rows >= kTileSide) return Tiles::template Store<kTile>(sums, kPanelWidth * 4);
    alignas(64) float whole[kTileSide * kTileSide];
    Tiles::template Store<kTile>(whole, kTileSide * 4);
    for (int64_t r = 0; r < rows; ++r) {
      // The tile unit filled it, which the analyzer does not see.
      // NOLINTNEXTLINE(clang-analyzer-core.uninitialized.Assign)
      for (int64_t n = 0; n < kTileSide; ++n) sums[r * kPanelWidth + n] = whole[r * kTileSide + n];
    }
  }

  template <int kVectors>
  static void MultiplyPanel(const SliceRun& run) {
    const int64_t x_bytes = run.x_stride * 2;
    for (int64_t row = 0; row < run.rows; row += 2 * kTileSide) {
      const int64_t rows = run.rows - row;
      const auto* x = static_cast<const std::byte*>(run.x) + row * x_bytes + run.first_input * 2;
      float* sums = run.sums + row * kPanelWidth;
      if (rows > kTileSide) {
        AddTiles<2, kVectors>(x, x_bytes, run.w, run.depth);
      } else {
        AddTiles<1, kVectors>(x, x_bytes, run.w, run.depth);
      }
      StoreTile<0>(rows, sums);
      if constexpr (kVectors > 1) StoreTile<1>(rows, sums + kTileSide);
      if (rows <= kTileSide) continue;
      StoreTile<2>(rows - kTileSide, sums + kTileSide * kPanelWidth);
      if constexpr (kVectors > 1) {
        StoreTile<3>(rows - kTileSide, sums + kTileSide * kPanelWidth + kTileSide);
      }
    }
  }

  // GemmKernel::multiply.
  static void Multiply(const SliceRun& run) {
    Tiles::Begin();
    if (run.width == kPanelWidth) {
      MultiplyPanel<2>(run);
    } else {
      MultiplyPanel<1>(run);
    }
    Tiles::End();
  }
};

}  // namespace sluice
