// Products on tile registers: a 16 x 16 tile of sums takes 16 rows of 32 activations and 16 outputs
// of 32 weights at a time. Weights are the stream of vectors of gemm_avx512-inl.h, K padded
// to 32; activations are ActivationLayout::kBFloat16Blocks.
//
// Few rows go by vectors, which give the same bits (gemm_few_rows.h).
//
// `Tiles` is the unit: gemm_amx.cc has the real one, the tests one of plain loops.
//   MostFewRows()         products of so many rows, at most, go by vectors; 0: none
//   Begin(rows), End()    around all other calls; tiles below kTilesOfRows have `rows` rows, 1 to 16
//   Zero<t>()             tile t = 0
//   Load<t>(from, bytes)  tile t = 16 rows of 64 bytes, that many bytes apart
//   LoadOnce<t>(...)      the same of what first-level cache need not keep
//   Store<t>(to, bytes)
//   Dot<c, a, b>()        c[m, n] += a[m, 2p] b[p, 2n] + a[m, 2p + 1] b[p, 2n + 1] for p = 0 to 15;
//                         a and b hold bfloat16, c floats
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/gemm_few_rows.h"
#include "kernels/cpu/gemm_kernel.h"

namespace sluice {

inline constexpr int kTilesOfRows = 6;  // 0 to 3 are sums, 4 and 5 activations; the others weights

// Activations of a slice from row `row` on, its inputs from `input` on.
inline const std::byte* BlockOf(const SliceRun& run, int64_t row, int64_t input) {
  return static_cast<const std::byte*>(run.x) + row * run.x_stride * 2 +
         (run.first_input + input) / kTileDepth * kTileBytes;
}

template <class Tiles>
bool HasFewRows(const SliceRun& run) {
  return run.rows <= Tiles::MostFewRows();
}

// Calls multiply<vectors>() for the width of a run's panel, with tiles for its rows.
template <class Tiles>
void WithTiles(const SliceRun& run, auto&& multiply) {
  const bool on_tiles = !HasFewRows<Tiles>(run);
  // Fewer rows take less time.
  if (on_tiles) Tiles::Begin(std::min(run.rows, kTileSide));
  if (run.width == kPanelWidth) {
    multiply.template operator()<2>();
  } else {
    multiply.template operator()<1>();
  }
  if (on_tiles) Tiles::End();
}

template <class Tiles>
struct AmxGemm {
  static constexpr int64_t kVectorBytes = kTileSide * 4;
  static constexpr int64_t kSumsBytes = kPanelWidth * 4;

  template <int kRowTiles, int kVectors>
  static void ForSums(auto&& each) {
    each.template operator()<0>(0, 0);
    if constexpr (kVectors > 1) each.template operator()<1>(0, kTileSide);
    if constexpr (kRowTiles > 1) each.template operator()<2>(kTileSide, 0);
    if constexpr (kRowTiles > 1 && kVectors > 1) each.template operator()<3>(kTileSide, kTileSide);
  }

  // Two tiles of rows and two of outputs, or one where there is but one.
  template <int kRowTiles, int kVectors>
  static void AddStrip(const TileStrip& strip) {
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
    const bool by_vectors = HasFewRows<Tiles>(run);
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
        const TileStrip strip{
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
        if (by_vectors) {
          AddFewRows(strip, run.rows, kVectors);
        } else if (run.rows - row > kTileSide) {
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

// Whether vectors add up as this unit does, bit for bit: some steps of numbers far and near, zeroes and
// subnormal ones among them.
template <class Tiles>
bool FewRowsHaveBitsOf() {
  constexpr int64_t kSteps = 16, kVectors = 2;
  alignas(64) std::array<uint16_t, kSteps * kTileSide * kTileDepth> x;
  alignas(64) std::array<uint16_t, kSteps * kVectors * kTileSide * kTileDepth> w;
  uint32_t state = 1;
  const auto draw = [&state] {
    state = state * 1664525 + 1013904223;
    const uint32_t bits = state >> 16;
    const uint32_t exponent = bits % 32 == 0 ? 0 : 112 + (bits >> 8) % 32;
    return static_cast<uint16_t>((bits & 0x807f) | exponent << 7);
  };
  for (uint16_t& element : x) element = draw();
  for (uint16_t& element : w) element = draw();
  alignas(64) float on_tiles[kTileSide * kPanelWidth], by_vectors[kTileSide * kPanelWidth];
  TileStrip strip{.x = reinterpret_cast<const std::byte*>(x.data()),
                  .x_bytes = 0,
                  .w = reinterpret_cast<const std::byte*>(w.data()),
                  .steps = kSteps,
                  .ahead = nullptr,
                  .ahead_lines = 0,
                  .sums = on_tiles,
                  .starts_at_zero = true};
  Tiles::Begin(kMostFewRows);
  AmxGemm<Tiles>::template AddStrip<1, kVectors>(strip);
  Tiles::End();
  strip.sums = by_vectors;
  AddFewRows(strip, kMostFewRows, kVectors);
  return std::memcmp(on_tiles, by_vectors, kMostFewRows * kPanelWidth * sizeof(float)) == 0;
}

}  // namespace sluice
