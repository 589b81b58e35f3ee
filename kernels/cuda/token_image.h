// How activations lie in memory for products that fetch them in bulk: blocks of 128 tokens, each of
// them by units of 64 inputs, and a unit is what wgmma finds in shared memory (shared_descriptor.h):
// rows of 128 bytes, one a token, their pieces of 16 bytes swizzled. Blocks are filled up with zeroes.
// Pure functions.
#pragma once

#include <cstdint>

#include "kernels/cuda/tile_image.h"

namespace sluice::cuda {

inline constexpr int kImageTokens = 128;
inline constexpr int kTokenUnitBytes = kImageTokens * kUnitInputs * 2;

constexpr int64_t TokenBlocks(int64_t rows) { return (rows + kImageTokens - 1) / kImageTokens; }

// `padded_inputs`: of all runs.
constexpr int64_t TokenImageBytes(int64_t rows, int64_t padded_inputs) {
  return TokenBlocks(rows) * padded_inputs / kUnitInputs * kTokenUnitBytes;
}
// Where unit `unit` of a block of tokens begins.
constexpr int64_t TokenUnit(int64_t block, int64_t unit, int64_t num_units) {
  return (block * num_units + unit) * kTokenUnitBytes;
}
// Where inputs [8 * piece, 8 * piece + 8) of row `row` lie.
constexpr int64_t TokenPiece(int64_t row, int64_t piece, int64_t num_units) {
  const auto token = static_cast<int>(row % kImageTokens);
  return TokenUnit(row / kImageTokens, piece / 8, num_units) + int64_t{token} * 128 +
         int64_t{SwizzledPiece(token, static_cast<int>(piece % 8))} * 16;
}

}  // namespace sluice::cuda
