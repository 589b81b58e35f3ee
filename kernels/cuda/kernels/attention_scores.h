// Scores of a tile of positions, and the weights that they become. After simt.h.
#pragma once

#include <type_traits>

#include "kernels/cuda/kernels/attention_fp8_loading.h"
#include "kernels/cuda/kernels/attention_loading.h"
#include "kernels/cuda/kernels/attention_merge.h"
#include "kernels/cuda/kernels/exponential.h"

namespace sluice::cuda::SIMT_NAMESPACE {

template <class Shape>
using LoaderOf =
    std::conditional_t<Shape::kType == DType::kF8E4M3, Fp8KvLoader<Shape>, KvLoader<Shape>>;

// A warp's scores, in the places of ElementOfC.
template <class Shape>
using Scores = float[Shape::kColumns][4];

// Queries times the keys of the warp's share of a tile, from column `first_column` on. The piece
// that a lane loads moves by two with every step: by one XOR, in swizzled rows.
template <class Shape>
SIMT_DEVICE void Score(const Queries<Shape>& queries, const LoaderOf<Shape>& loader, int stage,
                       int first_column, int lane, Scores<Shape>& scores) {
  const int keys = loader.KeysOffset(stage) +
                   loader.PieceOffset(first_column * 8 + lane / 16 * 8 + lane % 8, lane / 8 % 2);
  SIMT_UNROLL
  for (int column = 0; column < Shape::kColumns; ++column) {
    SIMT_UNROLL
    for (int i = 0; i < 4; ++i) scores[column][i] = 0;
  }
  SIMT_UNROLL
  for (int step = 0; step < Shape::kSteps; ++step) {
    const Words high = queries.Get(step, 0), low = queries.Get(step, 1);
    SIMT_UNROLL
    for (int pair = 0; pair < Shape::kColumns / 2; ++pair) {
      uint32_t k[Shape::kParts][4];
      SIMT_UNROLL
      for (int part = 0; part < Shape::kParts; ++part) {
        LoadMatrices(loader.At(keys ^ step * 32) + part * Shape::kPartBytes +
                         pair * 16 * Shape::kPieces * 16,
                     k[part]);
      }
      SIMT_UNROLL
      for (int side = 0; side < 2; ++side) {
        float(&sum)[4] = scores[pair * 2 + side];
        MultiplyTiles(high.word, k[0][side * 2], k[0][side * 2 + 1], sum);
        MultiplyTiles(low.word, k[0][side * 2], k[0][side * 2 + 1], sum);
        if constexpr (Shape::kParts == 2) {
          MultiplyTiles(high.word, k[1][side * 2], k[1][side * 2 + 1], sum);
        }
      }
    }
  }
}

inline constexpr float kLog2E = 1.4426950408889634f;

// Scores times `scale`, to base 2: capped, where `softcap` is not 0, and times log2 e.
SIMT_DEVICE float ScaledScore(float score, float scale, float softcap) {
  if (softcap == 0) return score * (scale * kLog2E);
  return SoftCapped(score * scale, softcap) * kLog2E;
}

// ScaledScore of all, minus infinity where a row does not see a position; and the largest of each of
// the thread's two rows, in the warp's share. `first_position`: of it.
template <class Shape>
SIMT_DEVICE void MaskAndScale(const PositionRange (&seen)[2], int first_position, float scale,
                              float softcap, int lane, Scores<Shape>& scores, float (&largest)[2]) {
  SIMT_UNROLL
  for (int half = 0; half < 2; ++half) {
    largest[half] = -INFINITY;
    SIMT_UNROLL
    for (int column = 0; column < Shape::kColumns; ++column) {
      SIMT_UNROLL
      for (int i = 0; i < 2; ++i) {
        float& score = scores[column][half * 2 + i];
        const int position = first_position + column * 8 + lane % 4 * 2 + i;
        score = seen[half].Has(position) ? ScaledScore(score, scale, softcap) : -INFINITY;
        largest[half] = Larger()(largest[half], score);
      }
    }
    largest[half] = Larger()(largest[half], ShuffleXor(largest[half], 1));
    largest[half] = Larger()(largest[half], ShuffleXor(largest[half], 2));
  }
}

// Scores become weights relative to the largest so far.
template <class Shape>
SIMT_DEVICE void Weigh(const float (&largest)[2], Scores<Shape>& scores) {
  SIMT_UNROLL
  for (int column = 0; column < Shape::kColumns; ++column) {
    SIMT_UNROLL
    for (int i = 0; i < 4; ++i) {
      float& score = scores[column][i];
      score = score == -INFINITY ? 0.0f : Exp2(score - largest[i / 2]);
    }
  }
}

// Weights of 16 positions as fragments of A: two columns of scores lie in a thread as they do.
struct WeightParts {
  Words high, low;
};
template <class Shape>
SIMT_DEVICE WeightParts PartsOfWeights(const Scores<Shape>& weights, int first_column) {
  WeightParts parts;
  SIMT_UNROLL
  for (int i = 0; i < 4; ++i) {
    const float(&column)[4] = weights[first_column + i / 2];
    const PairParts pair = SplitPair(column[i % 2 * 2], column[i % 2 * 2 + 1]);
    parts.high.word[i] = pair.high;
    parts.low.word[i] = pair.low;
  }
  return parts;
}

// What the warps that share 16 rows tell each other of a tile of positions. Each tells its part,
// all wait at a barrier, and read those of all.
class ScoreExchange {
 public:
  // `shared`: ExchangeBytes().
  SIMT_DEVICE ScoreExchange(char* shared, int member, int lane)
      : largest_(reinterpret_cast<float*>(shared)),
        weights_(reinterpret_cast<Words*>(shared + kAttentionWarps * kRowsOfTile * 4)),
        member_(member),
        lane_(lane) {}

  SIMT_DEVICE void JoinLargest(float (&largest)[2]) {
    if (lane_ % 4 == 0) {
      largest_[member_ * kRowsOfTile + lane_ / 4] = largest[0];
      largest_[member_ * kRowsOfTile + lane_ / 4 + 8] = largest[1];
    }
    Barrier();
    SIMT_UNROLL
    for (int warp = 0; warp < kAttentionWarps; ++warp) {
      SIMT_UNROLL
      for (int half = 0; half < 2; ++half) {
        largest[half] =
            Larger()(largest[half], largest_[warp * kRowsOfTile + lane_ / 4 + half * 8]);
      }
    }
  }

  // A warp's own 16 positions, and then those of `step`.
  SIMT_DEVICE void PutWeights(const WeightParts& parts) {
    weights_[member_ * 2 * kWarpSize + lane_] = parts.high;
    weights_[(member_ * 2 + 1) * kWarpSize + lane_] = parts.low;
    Barrier();
  }
  SIMT_DEVICE WeightParts WeightsOf(int step) const {
    return {weights_[step * 2 * kWarpSize + lane_], weights_[(step * 2 + 1) * kWarpSize + lane_]};
  }

 private:
  float* const largest_;
  Words* const weights_;
  const int member_, lane_;
};

}  // namespace sluice::cuda::SIMT_NAMESPACE
