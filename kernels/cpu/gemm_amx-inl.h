// Products on tile registers: a 16 x 16 tile of sums takes 16 rows of 32 activations and 16 outputs
// of 32 weights at a time. Weights are the stream of vectors of gemm_avx512-inl.h, K padded
// to 32; activations are ActivationLayout::kBFloat16Blocks.
//
// `Tiles` is the unit: gemm_amx.cc has the real one, the tests one of plain loops.
//   Begin(rows), End()    around all other calls; tiles below kTilesOfRows have `rows` rows, 1 to 16
//   Zero<t>()             tile t = 0
//   Load<t>(from, bytes)  tile t = 16 rows of 64 bytes, that many bytes apart
//   LoadOnce<t>(...)      the same of what first-level cache need not keep
//   Store<t>(to, bytes)
//   Dot<c, a, b>()        c[m, n] += a[m, 2p] b[p, 2n] + a[m, 2p + 1] b[p, 2n + 1] for p = 0 to 15;
//                         a and b hold bfloat16, c floats
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/gemm_kernel.h"

namespace sluice {

inline constexpr int64_t kTileSide = kRowsStep;
inline constexpr int64_t kTileDepth = kRowsDepth;
inline constexpr int kTilesOfRows = 6;  // 0 to 3 are sums, 4 and 5 activations; the others weights
inline constexpr int64_t kTileBytes = kTileSide * kTileDepth * 2;

// Activations of a slice from row `row` on, its inputs from `input` on.
inline const std::byte* BlockOf(const SliceRun& run, int64_t row, int64_t input) {
  return static_cast<const std::byte*>(run.x) + row * run.x_stride * 2 +
         (run.first_input + input) / kTileDepth * kTileBytes;
}

// Calls multiply<vectors>() for the width of a run's panel, with tiles for its rows.
template <class Tiles>
void WithTiles(const SliceRun& run, auto&& multiply) {
  // Fewer rows take less time.
  Tiles::Begin(std::min(run.rows, kTileSide));
  if (run.width == kPanelWidth) {
    multiply.template operator()<2>();
  } else {
    multiply.template operator()<1>();
  }
  Tiles::End();
}

template <class Tiles>
struct AmxGemm {
  static constexpr int64_t kVectorBytes = kTileSide * 4;
  static constexpr int64_t kSumsBytes = kPanelWidth * 4;

  struct Strip {
    const std::byte* x;  // blocks of 16 rows
    int64_t x_bytes;     // from there to the next 16 rows
    const std::byte* w;
    int64_t steps;           // of kTileDepth inputs
    const std::byte* ahead;  // weights to fetch meanwhile,
    int64_t ahead_lines;     // so many cache lines a step
    float* sums;             // [16 or 32, kPanelWidth]
    bool starts_at_zero;
  };

  template <int kRowTiles, int kVectors>
  static void ForSums(auto&& each) {
    each.template operator()<0>(0, 0);
    if constexpr (kVectors > 1) each.template operator()<1>(0, kTileSide);
    if constexpr (kRowTiles > 1) each.template operator()<2>(kTileSide, 0);
    if constexpr (kRowTiles > 1 && kVectors > 1) each.template operator()<3>(kTileSide, kTileSide);
  }

  // Two tiles of rows and two of outputs, or one where there is but one.
  template <int kRowTiles, int kVectors>
  static void AddStrip(const Strip& strip) {
    constexpr int64_t kPairBytes = kVectors * kVectorBytes;
    const std::byte* x = strip.x;
    const std::byte* w = strip.w;
    const std::byte* ahead = strip.ahead;
    ForSums<kRowTiles, kVectors>([&]<int kTile>(int64_t row, int64_t output) {
      if (strip.starts_at_zero) return Tiles::template Zero<kTile>();
      Tiles::template Load<kTile>(strip.sums + row * kPanelWidth + output, kSumsBytes);
    });
    for (int64_t step = 0; step < strip.steps; ++step) {
      Tiles::template LoadOnce<4>(x, kVectorBytes);
      if constexpr (kRowTiles > 1) Tiles::template LoadOnce<5>(x + strip.x_bytes, kVectorBytes);
      Tiles::template Load<6>(w, kPairBytes);
      Tiles::template Dot<0, 4, 6>();
      if constexpr (kVectors > 1) {
        Tiles::template Load<7>(w + kVectorBytes, kPairBytes);
        Tiles::template Dot<1, 4, 7>();
      }
      if constexpr (kRowTiles > 1) Tiles::template Dot<2, 5, 6>();
      if constexpr (kRowTiles > 1 && kVectors > 1) Tiles::template Dot<3, 5, 7>();
      for (int64_t i = 0; i < strip.ahead_lines; ++i, ahead += 64) __builtin_prefetch(ahead);
      x += kTileBytes;
      w += kTileDepth / 2 * kPairBytes;
    }
    ForSums<kRowTiles, kVectors>([&]<int kTile>(int64_t row, int64_t output) {
      Tiles::template Store<kTile>(strip.sums + row * kPanelWidth + output, kSumsBytes);
    });
  }

  // A run of weights stays in the first-level cache for all rows, while they fetch the next one;
  // rows pass by in the second. Sums wait in memory between runs, which leaves their bits alone.
  // Rows of one strip pass once, and fetch the next step.
  template <int kVectors>
  static void MultiplyPanel(const SliceRun& run) {
    constexpr int64_t kMostSteps = 16;
    const int64_t steps = run.depth / kTileDepth;
    const int64_t strips = (run.rows + 2 * kTileSide - 1) / (2 * kTileSide);
    const int64_t runs = strips == 1 ? 1 : (steps + kMostSteps - 1) / kMostSteps;
    const int64_t run_steps = (steps + runs - 1) / runs;
    constexpr int64_t kLines = kTileDepth / 2 * kVectors;  // of a step
    const int64_t lines = (kLines + strips - 1) / strips;
    for (int64_t first = 0; first < steps; first += run_steps) {
      const int64_t count = std::min(run_steps, steps - first);
      const std::byte* const w = run.w + first * kLines * kVectorBytes;
      for (int64_t row = 0; row < run.rows; row += 2 * kTileSide) {
        const Strip strip{
            .x = BlockOf(run, row, first * kTileDepth),
            .x_bytes = kTileSide * run.x_stride * 2,
            .w = w,
            .steps = count,
            .ahead = strips == 1
                         ? w + kLines * 64
                         : w + (count * kLines + row / (2 * kTileSide) * count * lines) * 64,
            .ahead_lines = lines,
            .sums = run.sums + row * kPanelWidth,
            .starts_at_zero = first == 0};
        if (run.rows - row > kTileSide) {
          AddStrip<2, kVectors>(strip);
        } else {
          AddStrip<1, kVectors>(strip);
        }
        if (first + count == steps) run.ready(row, std::min(run.rows - row, 2 * kTileSide));
      }
    }
  }

  // GemmKernel::multiply.
  static void Multiply(const SliceRun& run) {
    WithTiles<Tiles>(run, [&]<int kVectors>() { MultiplyPanel<kVectors>(run); });
  }
};

}  // namespace sluice
