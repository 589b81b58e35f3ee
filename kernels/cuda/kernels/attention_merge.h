// How the results of splits are merged, wherever that happens. After simt.h.
#pragma once

#include "kernels/cuda/kernels/elements.h"

namespace sluice::cuda::SIMT_NAMESPACE {

// Of a row over some positions: the largest score (times log2 e), and the sum of 2^(score -
// largest). Of no position at all: minus infinity, and 0.
struct SplitState {
  float largest = -INFINITY;
  float total = 0;
};

// What weights relative to `largest` are worth relative to `now`, which is no less.
SIMT_DEVICE float ShareOf(float largest, float now) {
  return largest == -INFINITY ? 0.0f : Exp2(largest - now);
}

struct MergeShares {
  SplitState state;
  float of_first, of_second;
};
// The splits merged so far, and the next one.
SIMT_DEVICE MergeShares Merge(const SplitState& first, const SplitState& second) {
  MergeShares shares;
  shares.state.largest = Larger()(first.largest, second.largest);
  shares.of_first = ShareOf(first.largest, shares.state.largest);
  shares.of_second = ShareOf(second.largest, shares.state.largest);
  shares.state.total =
      FusedMultiplyAdd(second.total, shares.of_second, first.total * shares.of_first);
  return shares;
}
SIMT_DEVICE float MergedSumOf(float first, float second, const MergeShares& shares) {
  return FusedMultiplyAdd(second, shares.of_second, first * shares.of_first);
}

}  // namespace sluice::cuda::SIMT_NAMESPACE
