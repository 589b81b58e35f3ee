// How a thread copies its part of a unit of K, weights and activations, to a stage of shared memory:
// the same pieces of 16 bytes of every unit, found once. After simt.h.
#pragma once

#include "kernels/cuda/gemm.h"
#include "kernels/cuda/kernels/elements.h"

namespace sluice::cuda::SIMT_NAMESPACE {

template <ImageFormat kFormat, GemmTile kTile, GemmPath kPath>
class UnitCopies {
 public:
  // Of the block that multiplies tiles from `first_tile` on with tokens from `first_token` on.
  SIMT_DEVICE void Prepare(const GemmTask& task, int first_tile, int first_token) {
    PrepareWeights(task.weights, first_tile);
    PrepareActivations(task.x, first_token);
  }

  SIMT_DEVICE void CopyWeights(int unit, char* stage) const {
    char* const to = stage + Thread() * 16;
    const std::byte* const from = weights_ + int64_t{unit} * kUnit;
    SIMT_UNROLL
    for (int j = 0; j < kWeightCopies; ++j) {
      if (!HasPiece(j)) continue;
      CopyAsync(to + j * kShape.threads() * 16, from + weight_offsets_[j], tile_is_real_[j]);
    }
  }
  SIMT_DEVICE void CopyActivations(int unit, char* stage) const {
    char* const to = stage + to_activations_;
    SIMT_UNROLL
    for (int j = 0; j < kTokenCopies; ++j) {
      CopyAsync(to + j * kTokensAtATime * 128, tokens_[j] + unit * kUnitInputs, token_is_real_[j]);
    }
  }

 private:
  static constexpr GemmTileShape kShape = ShapeOf(kTile, kPath, kFormat);
  static constexpr int kUnit = UnitBytes(kFormat), kUnitPieces = kUnit / 16;
  static constexpr int kWeightPieces = kShape.tiles() * kUnitPieces;
  static constexpr int kWeightCopies = (kWeightPieces + kShape.threads() - 1) / kShape.threads();
  // Eight threads have a token's eight pieces; the thread's tokens are of the same row of the swizzle.
  static constexpr int kTokensAtATime = kShape.threads() / 8;
  static constexpr int kTokenCopies = kShape.tokens() / kTokensAtATime;
  static_assert(kTokensAtATime % 8 == 0 && kShape.tokens() % kTokensAtATime == 0);

  // Whether the thread has a `j`-th piece of weights: not where they are no multiple of the threads.
  SIMT_DEVICE static bool HasPiece(int j) {
    return (j + 1) * kShape.threads() <= kWeightPieces ||
           Thread() + j * kShape.threads() < kWeightPieces;
  }

  SIMT_DEVICE void PrepareWeights(const WeightImage& weights, int first_tile) {
    const int tile_bytes = static_cast<int>(weights.runs.units()) * weights.runs.num_runs * kUnit;
    const auto num_tiles = static_cast<int>(NumTiles(weights.num_outputs, weights.gated));
    weights_ = weights.data + int64_t{first_tile} * tile_bytes;
    SIMT_UNROLL
    for (int j = 0; j < kWeightCopies; ++j) {
      const int i = Thread() + j * kShape.threads(), tile = i / kUnitPieces;
      tile_is_real_[j] = first_tile + tile < num_tiles;
      weight_offsets_[j] = tile_is_real_[j] ? tile * tile_bytes + i % kUnitPieces * 16 : 0;
    }
  }
  SIMT_DEVICE void PrepareActivations(const MatrixView& x, int first_token) {
    constexpr auto kActivations = static_cast<int>(StageWeightBytes(kTile, kFormat, kPath));
    const int token = Thread() / 8, piece = Thread() % 8;
    to_activations_ = kActivations + token * 128 + SwizzledPiece(token, piece) * 16;
    SIMT_UNROLL
    for (int j = 0; j < kTokenCopies; ++j) {
      const int row = first_token + token + j * kTokensAtATime;
      token_is_real_[j] = row < x.rows;
      tokens_[j] = RowOf<uint16_t>(x, token_is_real_[j] ? row : 0) + piece * 8;
    }
  }

  const std::byte* weights_;           // of the block's first tile
  int weight_offsets_[kWeightCopies];  // by copy, behind the unit's of the first tile
  bool tile_is_real_[kWeightCopies];
  const uint16_t* tokens_[kTokenCopies];  // by copy
  bool token_is_real_[kTokenCopies];
  int to_activations_;  // the first copy's place in a stage
};

}  // namespace sluice::cuda::SIMT_NAMESPACE
