// The packed rows of a block of attention: which positions they see, and their queries. After
// simt.h.
#pragma once

#include "kernels/attention_splits.h"
#include "kernels/cuda/attention_plan.h"
#include "kernels/cuda/attention_shape.h"
#include "kernels/cuda/kernels/elements.h"

namespace sluice::cuda::SIMT_NAMESPACE {

// Two numbers as sums of two BF16 numbers each.
struct PairParts {
  uint32_t high, low;
};
SIMT_DEVICE PairParts SplitPair(float first, float second) {
  const uint32_t high = PackBFloat16(first, second);
  return {high, PackBFloat16(first - FloatFromBits(high << 16),
                             second - FloatFromBits(high & 0xffff0000u))};
}

// Positions [begin, end).
struct PositionRange {
  int begin = 0, end = 0;

  SIMT_DEVICE bool Has(int position) const { return begin <= position && position < end; }
};

// A packed row as matrices have it.
struct RowAndHead {
  int64_t row;
  int head;
};
SIMT_DEVICE RowAndHead PlaceOf(const AttentionTile& tile, int packed, int group, int kv_head) {
  const int in_segment = tile.first_packed + packed;
  return {tile.first_row + in_segment / group, kv_head * group + in_segment % group};
}

// What packed row `packed` of a tile sees; nothing where there is no such row.
SIMT_DEVICE PositionRange SeenBy(const AttentionTile& tile, int packed, int group, int64_t window) {
  if (packed >= tile.num_packed) return {};
  const int position = tile.first_position + (tile.first_packed + packed) / group;
  return {static_cast<int>(FirstSeenPosition(position, window)), position + 1};
}
// What any of its rows sees.
SIMT_DEVICE PositionRange SeenByTile(const AttentionTile& tile, int group, int64_t window) {
  return {SeenBy(tile, 0, group, window).begin,
          SeenBy(tile, tile.num_packed - 1, group, window).end};
}

// A warp's queries, in two parts, as fragments of A: in its registers as far as HeldFragments says,
// else in memory that warps with the same rows share.
template <class Shape>
class Queries {
 public:
  // `shared`: QueryBytes(). `member`: of the warps with these rows.
  SIMT_DEVICE Queries(char* shared, int row_warp, int member, int lane)
      : shared_(reinterpret_cast<Words*>(shared) + row_warp * kSharedFragments * kWarpSize + lane),
        member_(member),
        lane_(lane) {}

  // `rows`: of the thread's two packed rows, the query's first element; null where there is none.
  // There after the block's next barrier.
  SIMT_DEVICE void Load(const float* const (&rows)[2], int head_dim) {
    SIMT_UNROLL
    for (int step = 0; step < Shape::kSteps; ++step) {
      Words parts[2];
      LoadStep(rows, head_dim, step, parts);
      SIMT_UNROLL
      for (int part = 0; part < 2; ++part) {
        if (step < Held(part)) {
          held_[part][step] = parts[part];
        } else if (step % Shape::kSharing == member_) {
          shared_[SharedIndex(step, part)] = parts[part];
        }
      }
    }
  }

  SIMT_DEVICE Words Get(int step, int part) const {
    return step < Held(part) ? held_[part][step] : shared_[SharedIndex(step, part)];
  }

 private:
  static constexpr int Held(int part) { return HeldFragments(Shape::kHeadDim, part); }
  static constexpr int kMostHeld = Held(0) > 0 ? Held(0) : 1;
  static constexpr int kSharedFragments = Shape::kSteps * 2 - Held(0) - Held(1);
  static constexpr int SharedIndex(int step, int part) {
    return (step - Held(part) + (part == 1 ? Shape::kSteps - Held(0) : 0)) * kWarpSize;
  }

  SIMT_DEVICE void LoadStep(const float* const (&rows)[2], int head_dim, int step,
                            Words (&parts)[2]) const {
    SIMT_UNROLL
    for (int i = 0; i < 4; ++i) {
      const int col = step * 16 + ElementOfA(lane_, 2 * i).col;
      const float* const row = rows[i % 2];
      const float first = row != nullptr && col < head_dim ? row[col] : 0.0f;
      const float second = row != nullptr && col + 1 < head_dim ? row[col + 1] : 0.0f;
      const PairParts pair = SplitPair(first, second);
      parts[0].word[i] = pair.high;
      parts[1].word[i] = pair.low;
    }
  }

  Words* const shared_;
  const int member_, lane_;
  Words held_[2][kMostHeld];
};

}  // namespace sluice::cuda::SIMT_NAMESPACE
