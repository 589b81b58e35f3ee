// How weights of products lie in memory: an image of what lanes load into registers.
//
// A unit is 16 outputs times 64 inputs, in two groups of 32. Each lane finds its elements of a group
// (fragment.h) in one piece, of BF16 in two, one lane after the other: what a warp loads at once meets
// every bank of shared memory as often as any other, and units are copied in whole lines.
//
//   BF16   4 fragments [16, 16], each 32 lanes of 8 elements: 2,048 bytes
//   INT8   2 groups, each 32 lanes of 16 elements in 16 bytes, then the scales: 1,088 bytes
//   INT4   2 groups, each 32 lanes of 16 elements in 8 bytes, then the scales: 576 bytes
//   FP8    as INT8, but the scales times 2^120 (kernels/fp8_codes.h)
//   scales 2 groups of 16 BF16 numbers, by output
//
// FP8 weights that are multiplied with FP8 inputs lie as BF16 ones do, two neighbours in K in place of
// one number: what holds 16 bits is then a pair, and K is counted in pairs. Their scales lie behind
// the image, one for each output and slice (Fp8Scales).
//
// Units lie by tile of 16 outputs, then by input. A run of inputs that is summed by itself begins
// with a unit and is filled up with zeroes to whole ones. Where weights are gated, a tile holds the
// gates of 8 outputs and then their ups, which meet in one lane. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/fragment.h"
#include "kernels/weight_format.h"

namespace sluice::cuda {

inline constexpr int kTileOutputs = 16;
inline constexpr int kUnitInputs = 64;
inline constexpr int kFragmentInputs = 16;
inline constexpr int kGroupInputs = int{kWeightGroup};  // that share a scale where there are any
inline constexpr int kGroupFragments = kGroupInputs / kFragmentInputs;
inline constexpr int kUnitGroups = kUnitInputs / kGroupInputs;

enum class ImageFormat : uint8_t { kF32, kBF16, kInt8, kInt4, kFp8, kFp8Pairs };

// Of weights in a format that GPUs multiply (WeightFormatTraits::on_gpu).
constexpr ImageFormat ImageFormatOf(WeightFormat format) {
  switch (format) {
    case WeightFormat::kF32:
      return ImageFormat::kF32;
    case WeightFormat::kInt8:
      return ImageFormat::kInt8;
    case WeightFormat::kInt4:
      return ImageFormat::kInt4;
    case WeightFormat::kFp8:
      return ImageFormat::kFp8;
    default:
      return ImageFormat::kBF16;
  }
}

// The format of rows that an image is made of.
constexpr WeightFormat StoredFormat(ImageFormat format) {
  switch (format) {
    case ImageFormat::kF32:
      return WeightFormat::kF32;
    case ImageFormat::kBF16:
      break;
    case ImageFormat::kInt8:
      return WeightFormat::kInt8;
    case ImageFormat::kInt4:
      return WeightFormat::kInt4;
    case ImageFormat::kFp8:
    case ImageFormat::kFp8Pairs:
      return WeightFormat::kFp8;
  }
  return WeightFormat::kBF16;
}

// Whether a unit is elements of 16 bits and nothing else.
constexpr bool IsPlain(ImageFormat format) {
  return format == ImageFormat::kBF16 || format == ImageFormat::kFp8Pairs;
}

constexpr int ScaleOffset(ImageFormat format) { return format == ImageFormat::kInt4 ? 512 : 1024; }

constexpr int UnitBytes(ImageFormat format) {
  return IsPlain(format) ? 2048 : ScaleOffset(format) + 64;
}

// Whether the sum over each group of inputs is multiplied with its scale, and not each weight.
constexpr bool ScalesGroupSums(ImageFormat format) {
  return format == ImageFormat::kInt8 || format == ImageFormat::kInt4;
}

// Where the scale of output `row` of a tile for group `group` of the unit lies.
constexpr int ScaleOffset(ImageFormat format, int row, int group) {
  return ScaleOffset(format) + (group * kTileOutputs + row) * 2;
}

// The lane that multiplies element (row, col) of a fragment, and which of its 8 elements that is.
struct FragmentPlace {
  int lane;
  int index;
};
constexpr FragmentPlace PlaceInFragment(int row, int col) {
  return {row % 8 * 4 + col % 8 / 2, col % 2 + (row >= 8 ? 2 : 0) + (col >= 8 ? 4 : 0)};
}

// Where element (row, col) of a unit lies: the byte and, in INT4, which half of it.
struct UnitPlace {
  int byte;
  bool high_half = false;
};
constexpr UnitPlace PlaceInUnit(ImageFormat format, int row, int col) {
  const int fragment = col / kFragmentInputs;
  const int group = fragment / kGroupFragments, in_group = fragment % kGroupFragments;
  const FragmentPlace place = PlaceInFragment(row, col % kFragmentInputs);
  if (IsPlain(format)) {
    return {(fragment * kWarpSize + place.lane) * 16 + place.index * 2};
  }
  if (format != ImageFormat::kInt4) {
    // Bytes 0 and 2 of a word are one register's pair, bytes 1 and 3 another's: of the rows g and
    // g + 8.
    const int byte = place.index / 4 * 4 + place.index % 2 * 2 + place.index / 2 % 2;
    return {(group * kWarpSize + place.lane) * 16 + in_group * 8 + byte};
  }
  // A word of 8 halves is a fragment: byte b has elements of one row, of the columns below and from
  // 8 on.
  const int byte = place.index % 2 * 2 + place.index / 2 % 2;
  return {(group * kWarpSize + place.lane) * 8 + in_group * 4 + byte, place.index >= 4};
}

// Which tile, and which row of it, holds row `n` of a matrix of `num_outputs` rows.
struct TileRow {
  int64_t tile;
  int row;
};
constexpr TileRow TileRowOf(int64_t n, int64_t num_outputs, bool gated) {
  if (!gated) return {n / kTileOutputs, static_cast<int>(n % kTileOutputs)};
  const int64_t half = num_outputs / 2, output = n < half ? n : n - half;
  return {output / 8, static_cast<int>(output % 8) + (n < half ? 0 : 8)};
}
constexpr int64_t NumTiles(int64_t num_outputs, bool gated) {
  return gated ? (num_outputs / 2 + 7) / 8 : (num_outputs + kTileOutputs - 1) / kTileOutputs;
}

// How K is cut: `num_runs` runs of `depth` inputs, in whole units.
struct RunShape {
  int num_runs = 1;
  int64_t depth = 0;

  constexpr int64_t units() const { return (depth + kUnitInputs - 1) / kUnitInputs; }
  constexpr int64_t padded_depth() const { return units() * kUnitInputs; }
  constexpr bool is_padded() const { return padded_depth() != depth; }
};

// Inputs below which a run is not cut further.
inline constexpr int64_t kShortestRun = 1024;

// A slice of PackSpec is cut further, so that few rows keep all multiprocessors busy: in halves,
// while those are whole units of at least kShortestRun inputs. Depends on the slice's depth alone,
// which is the same on every rank, and the runs' tree joins those of a slice first.
constexpr RunShape RunsOf(int64_t num_inputs, int num_slices) {
  RunShape runs{num_slices, num_inputs / num_slices};
  while (runs.depth % (int64_t{2} * kUnitInputs) == 0 && runs.depth / 2 >= kShortestRun) {
    runs.depth /= 2;
    runs.num_runs *= 2;
  }
  return runs;
}

constexpr int64_t ImageBytes(ImageFormat format, int64_t num_outputs, bool gated, RunShape runs) {
  return NumTiles(num_outputs, gated) * runs.num_runs * runs.units() * UnitBytes(format);
}

// The same runs with K counted in pairs. REQUIRES: runs.depth is even.
constexpr RunShape InPairs(RunShape runs) { return {runs.num_runs, runs.depth / 2}; }

// Scales of pairs, F32: one for each slice and row of a tile.
constexpr int64_t Fp8Scales(int64_t num_outputs, bool gated, int num_slices) {
  return NumTiles(num_outputs, gated) * kTileOutputs * num_slices;
}
constexpr int64_t Fp8ScaleAt(int64_t tile, int row, int slice, int num_slices) {
  return (tile * num_slices + slice) * kTileOutputs + row;
}

}  // namespace sluice::cuda
