// Sums of values by their weights, over a split. After simt.h.
#pragma once

#include "kernels/cuda/kernels/attention_scores.h"

namespace sluice::cuda::SIMT_NAMESPACE {

// A warp's share of the columns of its rows' sums, in the places of ElementOfC, and the sums of the
// weights themselves: a column of ones beside the values, so that warps that share rows, and warps
// that don't, add them up alike.
template <class Shape>
class ValueSums {
 public:
  SIMT_DEVICE void Clear() {
    ForAll([](float& sum, int, int) { sum = 0; });
    SIMT_UNROLL
    for (int i = 0; i < 4; ++i) totals_[i] = 0;
  }

  // The largest score of a row has become larger.
  SIMT_DEVICE void Shrink(const float (&shares)[2]) {
    ForAll([&](float& sum, int, int i) { sum *= shares[i / 2]; });
    SIMT_UNROLL
    for (int i = 0; i < 4; ++i) totals_[i] *= shares[i / 2];
  }

  // Where a lane begins to load values; `first_column`: of the sums.
  SIMT_DEVICE static int FirstPiece(const LoaderOf<Shape>& loader, int stage, int first_column,
                                    int lane) {
    return loader.KeysOffset(stage) + Shape::kKvBytes +
           loader.PieceOffset(lane / 8 % 2 * 8 + lane % 8, first_column + lane / 16);
  }

  // Adds 16 positions, from `step` * 16 of the tile on. `first_piece`: FirstPiece().
  SIMT_DEVICE void Add(const LoaderOf<Shape>& loader, int first_piece, const WeightParts& weights,
                       int step) {
    constexpr uint32_t kOnes = 0x3f803f80;
    MultiplyTiles(weights.high.word, kOnes, kOnes, totals_);
    MultiplyTiles(weights.low.word, kOnes, kOnes, totals_);
    SIMT_UNROLL
    for (int pair = 0; pair < Shape::kHeadColumns / 2; ++pair) {
      uint32_t v[Shape::kParts][4];
      SIMT_UNROLL
      for (int part = 0; part < Shape::kParts; ++part) {
        LoadTransposed(loader.At(first_piece ^ pair * 32) + part * Shape::kPartBytes +
                           step * 16 * Shape::kPieces * 16,
                       v[part]);
      }
      SIMT_UNROLL
      for (int side = 0; side < 2; ++side) {
        float(&sum)[4] = sums_[pair * 2 + side];
        MultiplyTiles(weights.high.word, v[0][side * 2], v[0][side * 2 + 1], sum);
        MultiplyTiles(weights.low.word, v[0][side * 2], v[0][side * 2 + 1], sum);
        if constexpr (Shape::kParts == 2) {
          MultiplyTiles(weights.high.word, v[1][side * 2], v[1][side * 2 + 1], sum);
        }
      }
    }
  }

  SIMT_DEVICE float Total(int half) const { return totals_[half * 2]; }
  SIMT_DEVICE void SetTotal(int half, float total) { totals_[half * 2] = total; }

  SIMT_DEVICE float& At(int column, int i) { return sums_[column][i]; }
  // Calls f(sum, column, i) for all of them.
  template <class F>
  SIMT_DEVICE void ForAll(F f) {
    SIMT_UNROLL
    for (int column = 0; column < Shape::kHeadColumns; ++column) {
      SIMT_UNROLL
      for (int i = 0; i < 4; ++i) f(sums_[column][i], column, i);
    }
  }

 private:
  float sums_[Shape::kHeadColumns][4];
  float totals_[4];
};

// What the splits before the one at hand have come to: the sums in registers, or in shared memory.
template <class Shape>
class MergedSums {
 public:
  // `shared`: MergedBytes().
  SIMT_DEVICE explicit MergedSums(char* shared)
      : shared_(reinterpret_cast<float*>(shared) + Thread()) {}

  SIMT_DEVICE void Clear() { has_any_ = false; }

  SIMT_DEVICE void Save(ValueSums<Shape>& sums, const float (&largest)[2]) {
    has_any_ = true;
    SIMT_UNROLL
    for (int half = 0; half < 2; ++half) states_[half] = {largest[half], sums.Total(half)};
    sums.ForAll([&](float& sum, int column, int i) { At(column, i) = sum; });
  }

  // The split at hand becomes all up to it.
  SIMT_DEVICE void MergeInto(ValueSums<Shape>& sums, float (&largest)[2]) {
    if (!has_any_) return;
    MergeShares shares[2];
    SIMT_UNROLL
    for (int half = 0; half < 2; ++half) {
      shares[half] = Merge(states_[half], {largest[half], sums.Total(half)});
      largest[half] = shares[half].state.largest;
      sums.SetTotal(half, shares[half].state.total);
    }
    sums.ForAll([&](float& sum, int column, int i) {
      sum = MergedSumOf(At(column, i), sum, shares[i / 2]);
    });
  }

 private:
  SIMT_DEVICE float& At(int column, int i) {
    if constexpr (Shape::kHoldsMergedSums) return held_[column][i];
    return shared_[(column * 4 + i) * Shape::kThreads];
  }

  float* const shared_;
  bool has_any_ = false;
  SplitState states_[2];
  float held_[Shape::kHoldsMergedSums ? Shape::kHeadColumns : 1][4];
};

}  // namespace sluice::cuda::SIMT_NAMESPACE
