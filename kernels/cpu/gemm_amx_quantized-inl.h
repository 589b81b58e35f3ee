// Products of quantised weights on tile registers. A tile is as deep as a group of weights that
// share a scale: a group's numbers are unpacked to bfloat16 once for all rows, multiplied and added
// up in a tile, and its sums, times the scale, added to those before it. Tiles of some groups go to
// the first-level cache before vectors take them up, so that both units work at a time. `Tiles` as
// in gemm_amx-inl.h.
//
// Few rows go by vectors in place of tiles, which give the same bits.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "kernels/cpu/gemm_amx-inl.h"
#include "kernels/cpu/gemm_quantized_stream.h"

namespace sluice {

template <class Tiles, WeightFormat kFormat>
struct AmxQuantizedGemm {
  static_assert(kTileDepth == kWeightGroup);
  // Not a multiple of 4 KiB: loads of one group would be taken for what was stored to another.
  static constexpr int64_t kSumsOfGroup = 2 * kTileSide * kPanelWidth + 4 * kPanelWidth + 16;

  using Gemm = AmxGemm<Tiles>;

  // The sums of each group, of one or two tiles of rows and of outputs, kSumsOfGroup apart. A strip
  // is a group; what it fetches are packed weights.
  template <int kRowTiles, int kVectors>
  static void MultiplyGroups(TileStrip group, int64_t count) {
    for (int64_t g = 0; g < count; ++g, group = NextStrip(group, kVectors, kSumsOfGroup)) {
      Gemm::template AddStrip<kRowTiles, kVectors>(group);
    }
  }

  static void MultiplyFewRows(const SliceRun& run) {
    const int64_t groups = run.depth / kWeightGroup;
    const QuantizedSlice slice = QuantizedSliceOf(kFormat, run.w, run.width, groups);
    alignas(64) float group_sums[kGroupsAdded * kSumsOfGroup];
    std::fill_n(run.sums, run.rows * kPanelWidth, 0.0f);
    for (int64_t g = 0; g < groups; g += kGroupsAdded) {
      const int64_t count = std::min(kGroupsAdded, groups - g);
      AddFewRowsOfGroups(kFormat,
                         {.x = BlockOf(run, 0, g * kWeightGroup),
                          .w = slice.groups + g * slice.group_bytes,
                          .width = run.width,
                          .count = count,
                          .sums = group_sums,
                          .sums_step = kSumsOfGroup},
                         run.rows);
      AddScaledGroups(kFormat,
                      {.scales = slice.scales + g * slice.scales_step,
                       .scales_step = slice.scales_step,
                       .sums = group_sums,
                       .sums_step = kSumsOfGroup,
                       .count = count},
                      run.rows, run.width, run.sums);
    }
    run.ready(0, run.rows);
  }

  template <int kVectors>
  static void MultiplyPanel(const SliceRun& run) {
    constexpr int64_t kStreamBytes = kTileBytes * kVectors;
    constexpr int64_t kStep = kUnpackedBytes / kStreamBytes;  // groups
    const QuantizedSlice slice =
        QuantizedSliceOf(kFormat, run.w, run.width, run.depth / kWeightGroup);
    const int64_t group_bytes = slice.group_bytes;
    const int64_t strips = (run.rows + 2 * kTileSide - 1) / (2 * kTileSide);
    const int64_t lines = (group_bytes + slice.scales_step + strips * 64 - 1) / (strips * 64);
    alignas(64) float group_sums[kGroupsAdded * kSumsOfGroup];
    std::fill_n(run.sums, run.rows * kPanelWidth, 0.0f);
    for (int64_t first = 0; first < run.depth / kWeightGroup; first += kStep) {
      const int64_t groups = std::min(kStep, run.depth / kWeightGroup - first);
      const std::byte* const packed = slice.groups + first * group_bytes;
      const std::byte* ahead = packed + groups * group_bytes;
      UnpackQuantized(kFormat, packed, run.width, groups, run.unpacked);
      for (int64_t row = 0; row < run.rows; row += 2 * kTileSide) {
        const int64_t rows = std::min(run.rows - row, 2 * kTileSide);
        for (int64_t g = 0; g < groups; g += kGroupsAdded) {
          const int64_t count = std::min(kGroupsAdded, groups - g);
          const TileStrip group{.x = BlockOf(run, row, (first + g) * kWeightGroup),
                                .x_bytes = kTileSide * run.x_stride * 2,
                                .w = run.unpacked + g * kStreamBytes,
                                .steps = 1,
                                .ahead = ahead,
                                .ahead_lines = lines,
                                .sums = group_sums,
                                .starts_at_zero = true};
          if (rows > kTileSide) {
            MultiplyGroups<2, kVectors>(group, count);
          } else {
            MultiplyGroups<1, kVectors>(group, count);
          }
          AddScaledGroups(kFormat,
                          {.scales = slice.scales + (first + g) * slice.scales_step,
                           .scales_step = slice.scales_step,
                           .sums = group_sums,
                           .sums_step = kSumsOfGroup,
                           .count = count},
                          rows, run.width, run.sums + row * kPanelWidth);
          ahead += count * lines * 64;
        }
        if (first + groups == run.depth / kWeightGroup) run.ready(row, rows);
      }
    }
  }

  // GemmKernel::multiply.
  static void Multiply(const SliceRun& run) {
    if (HasFewRows<Tiles>(run)) return MultiplyFewRows(run);
    WithTiles<Tiles>(run, [&]<int kVectors>() { MultiplyPanel<kVectors>(run); });
  }
};

// GemmKernel::multiply of weights in kFormat; null for what tiles do not multiply.
template <class Tiles, WeightFormat kFormat>
constexpr MultiplySlice* kMultiplyOnTiles = nullptr;
template <class Tiles, WeightFormat kFormat>
requires(IsQuantized(kFormat) &&
         TraitsOf(kFormat).on_cpu ==
             kFormat) constexpr MultiplySlice* kMultiplyOnTiles<Tiles, kFormat> =
    AmxQuantizedGemm<Tiles, kFormat>::Multiply;
template <class Tiles>
constexpr MultiplySlice* kMultiplyOnTiles<Tiles, WeightFormat::kBF16> = AmxGemm<Tiles>::Multiply;

template <class Tiles>
MultiplySlice* MultiplyOnTiles(WeightFormat format) {
  static constexpr auto kByFormat = []<size_t... kIndices>(std::index_sequence<kIndices...>) {
    return std::array<MultiplySlice*, kNumWeightFormats>{
        kMultiplyOnTiles<Tiles, static_cast<WeightFormat>(kIndices)>...};
  }
  (std::make_index_sequence<kNumWeightFormats>());
  return kByFormat[IndexOf(format)];
}

}  // namespace sluice
