// Products of quantised weights on tile registers. A tile is as deep as a group of weights that
// share a scale: a group's numbers are unpacked to bfloat16, multiplied and added up in a tile, and its
// sums, times the scale, added to those before it. `Tiles` as in gemm_amx-inl.h.
//
// One row takes the same way as many: what a tile adds up has bits of its own.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/gemm_amx-inl.h"
#include "kernels/cpu/gemm_quantized_stream.h"

namespace sluice {

template <class Tiles, WeightFormat kFormat>
struct AmxQuantizedGemm {
  static_assert(kTileDepth == kWeightGroup);
  static constexpr int64_t kVectorBytes = kTileSide * 4;

  // The sums of one group, of one or two tiles of rows and of outputs: [2 * kTileSide,
  // kPanelWidth].
  template <int kRowTiles, int kVectors>
  static void MultiplyGroup(const std::byte* x, int64_t x_bytes, const std::byte* stream,
                            float* sums) {
    constexpr int64_t kSumsBytes = kPanelWidth * 4;
    AmxGemm<Tiles>::template AddTiles<kRowTiles, kVectors>(x, x_bytes, stream, kWeightGroup);
    Tiles::template Store<0>(sums, kSumsBytes);
    if constexpr (kVectors > 1) Tiles::template Store<1>(sums + kTileSide, kSumsBytes);
    if constexpr (kRowTiles > 1) {
      float* const below = sums + kTileSide * kPanelWidth;
      Tiles::template Store<2>(below, kSumsBytes);
      if constexpr (kVectors > 1) Tiles::template Store<3>(below + kTileSide, kSumsBytes);
    }
  }

  template <int kVectors>
  static void MultiplyPanel(const SliceRun& run) {
    const int64_t x_bytes = run.x_stride * 2;
    const int64_t group_bytes = QuantizedGroupBytes(kFormat, run.width);
    constexpr int64_t kStreamBytes = kWeightGroup / 2 * kVectors * kVectorBytes;
    constexpr int64_t kStep = kUnpackedBytes / kStreamBytes;  // groups
    alignas(64) float group_sums[2 * kTileSide * kPanelWidth];
    std::fill_n(run.sums, run.rows * kPanelWidth, 0.0f);
    for (int64_t first = 0; first < run.depth / kWeightGroup; first += kStep) {
      const int64_t groups = std::min(kStep, run.depth / kWeightGroup - first);
      UnpackQuantized(kFormat, run.w + first * group_bytes, run.width, groups, run.unpacked);
      for (int64_t row = 0; row < run.rows; row += 2 * kTileSide) {
        const int64_t rows = std::min(run.rows - row, 2 * kTileSide);
        const auto* x = static_cast<const std::byte*>(run.x) + row * x_bytes +
                        (run.first_input + first * kWeightGroup) * 2;
        for (int64_t g = 0; g < groups; ++g, x += kWeightGroup * 2) {
          const std::byte* stream = run.unpacked + g * kStreamBytes;
          if (rows > kTileSide) {
            MultiplyGroup<2, kVectors>(x, x_bytes, stream, group_sums);
          } else {
            MultiplyGroup<1, kVectors>(x, x_bytes, stream, group_sums);
          }
          AddScaledGroup(run.w + (first + g) * group_bytes, group_sums, rows, run.width,
                         run.sums + row * kPanelWidth);
        }
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
