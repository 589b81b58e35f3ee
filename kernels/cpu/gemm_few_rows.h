// Products of few rows with the bits of tiles (gemm_amx-inl.h), by vectors: a tile does little for
// one row, and takes as long to load weights as for sixteen. For machines that support
// InstructionSet::kAvx512Bf16.
//
// TDPBF16PS adds up a step of kTileDepth inputs as two chains of fused multiply-adds from zero, of
// the even and of the odd inputs; adds the two; and adds that to the sum so far. Numbers are
// rounded to nearest even, and subnormal ones read and written as zero (docs/decisions/030).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/gemm_kernel.h"

namespace sluice {

inline constexpr int64_t kTileSide = kRowsStep;
inline constexpr int64_t kTileDepth = kRowsDepth;
inline constexpr int64_t kTileBytes = kTileSide * kTileDepth * 2;

// Steps of some rows of activations and 16 or 32 outputs of weights.
struct TileStrip {
  const std::byte* x;      // blocks of 16 rows, ActivationLayout::kBFloat16Blocks
  int64_t x_bytes;         // from there to the next 16 rows
  const std::byte* w;      // the stream of vectors of gemm_avx512-inl.h
  int64_t steps;           // of kTileDepth inputs
  const std::byte* ahead;  // weights to fetch meanwhile,
  int64_t ahead_lines;     // so many cache lines a step
  float* sums;             // [rows, kPanelWidth]
  bool starts_at_zero;     // else the sums stand there
};

// The strip after this one where strips are groups of weights: its sums are `sums_step` floats on.
inline TileStrip NextStrip(TileStrip strip, int64_t vectors, int64_t sums_step) {
  strip.x += strip.steps * kTileBytes;
  strip.w += strip.steps * kTileBytes * vectors;
  strip.ahead += strip.steps * strip.ahead_lines * 64;
  strip.sums += sums_step;
  return strip;
}

// Beyond so many rows tiles should take less time: reckoned, not measured (docs/decisions/030).
inline constexpr int64_t kMostFewRows = 4;

// A strip of 1 to kMostFewRows rows and 16 outputs in each of 1 or 2 vectors.
void AddFewRows(const TileStrip& strip, int64_t rows, int64_t vectors);

// Groups of quantised weights that follow each other in a slice (gemm_quantized_stream.h), unpacked
// in registers.
struct FewRowsGroups {
  const std::byte* x;  // as in TileStrip, a step a group
  const std::byte* w;
  int64_t width;
  int64_t count;
  float* sums;  // of the first group, [rows, kPanelWidth], without its scales
  int64_t sums_step;
};
void AddFewRowsOfGroups(WeightFormat format, const FewRowsGroups& groups, int64_t rows);

}  // namespace sluice
